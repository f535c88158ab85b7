// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/confirmations.h"
#include "providers/soft/direct_access.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/rdmap.h"
#include "providers/soft/iwarp/terminate.h"
#include "providers/soft/iwarp/tx_batch.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace udapl::soft {

struct Segment;

// How a link ends.
enum class Close : std::uint8_t {
  kGently,  // everything that was sent still arrives, and the peer finds an orderly end
  kReset
};

// The layer below a queue: carries whole messages to and from a peer, in order, exactly once. The
// interface describes messages in the terms of RDMAP (iwarp::Sender, iwarp::Inbound) and hides how
// they are transported. The iWARP stream is one implementation (iwarp_link.h); tests have another.
//
// Outgoing: the caller begins one message with begin_*(), calls build() until the message is
// complete, and flush() to send what is built. It pins the memory of a message during build(), and
// during flush() if refers(). A link to a peer on this host may have more abilities:
// confirmations(), direct_access().
// Incoming: when ready() reports input, call receive(), which delivers to an Inbound.
//
// Not thread-safe: protected by the lock of a Qp. Owned by a Connection, which creates it when the
// peer is connected. Values that are read for each message are members of this class, which saves
// virtual calls.
class Link {
 public:
  // The events that a link can await and report.
  enum What : unsigned {
    kRoom = 1,     // more can be sent
    kInput = 2,    // there is input, or the end of the stream
    kPeerEnd = 4,  // the peer has closed its side; there may still be unread input
    kBroken = 8,   // always awaited
    kPlaced = 16   // see Confirmations::await_placed()
  };
  enum class Received : std::uint8_t {
    kMore,
    kNothing,  // no more for now
    kFirst,    // the first message has arrived, see receive()
    kEnd,      // the peer has closed
    kBroken,   // error() says why
    kNoMemory
  };
  enum class Flushed : std::uint8_t {
    kDone,
    kBlocked,
    kNoReader,  // the peer reads no more; the end of the input tells how it has left
    kBroken
  };

  // The state of the input.
  struct Incoming {
    bool waits = false;             // a message waits for a receive, and all later input behind it
    bool full = false;              // no more input can be held back
    bool failed = false;            // the input was invalid; failure() must be sent to the peer
    bool failed_in_answer = false;  // the invalid input was an answer to a Read or atomic of ours
    bool mid_frame = false;         // a frame has arrived incompletely
    bool torn = false;              // the stream has ended within a frame, and not on purpose
    std::size_t staged = 0;         // bytes that were read and not yet delivered
    std::size_t buffer = 0;         // the size of the memory for staged bytes, at the end of a pass
    std::uint64_t frames = 0;       // delivered since the beginning
    std::uint64_t bytes = 0;        // read since the beginning
  };
  // A measure of progress: changes whenever anything is sent, acknowledged or received.
  struct Movement {
    std::uint64_t sent = 0;
    std::size_t unacknowledged = 0;
    std::uint64_t frames = 0;
    std::size_t staged = 0;
    bool operator==(const Movement&) const = default;
  };

  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // ---- the connection ---------------------------------------------------------------------------
  // From now on, the driving thread calls `handler` for awaited events: at first only for kBroken;
  // see want(). INSUFFICIENT_RESOURCES.
  virtual Status watch(Handler& handler) noexcept = 0;
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
  // Responder: sends the reply of the connection set-up. Returns false if the connection is lost.
  [[nodiscard]] virtual bool answer(std::span<const std::byte> reply) noexcept = 0;
  // Closes this side of the stream: no more messages will be sent.
  virtual void finish_output() noexcept = 0;
  // Called before close(kGently), with the memory of messages pinned if refers(): copies the bytes
  // that must still be sent so that the peer finds an orderly end. Returns false if that is
  // impossible.
  [[nodiscard]] virtual bool prepare_end() noexcept { return true; }
  // Only the destructor may follow.
  virtual void close(Close how) noexcept = 0;

  // ---- outgoing; messages as in iwarp::Sender ---------------------------------------------------
  using Payload = std::span<const iwarp::IoSpan>;
  virtual void begin_write(std::uint32_t stag, std::uint64_t to, Payload payload,
                           std::uint32_t length) noexcept = 0;
  virtual void begin_send(iwarp::Opcode opcode, std::uint32_t invalidate_stag, Payload payload,
                          std::uint32_t length) noexcept = 0;
  // Whether a Send of this length should not begin before Link::kRoom is reported.
  [[nodiscard]] virtual bool puts_off_send(std::uint32_t /*length*/) noexcept { return false; }
  virtual void begin_immediate(const iwarp::ImmediateBytes& data, bool solicited) noexcept = 0;
  virtual void begin_read_request(const iwarp::ReadRequest& request) noexcept = 0;
  virtual void begin_atomic_request(const iwarp::AtomicRequest& request) noexcept = 0;
  virtual void begin_read_response(std::uint32_t stag, std::uint64_t to, Payload payload,
                                   std::uint32_t length) noexcept = 0;
  virtual void begin_atomic_response(const iwarp::AtomicResponse& response) noexcept = 0;
  // The message number of the next Send or immediate data.
  [[nodiscard]] virtual std::uint32_t next_send() const noexcept = 0;
  // Begins the last message of the stream. A message that is being built stays unfinished.
  virtual void begin_terminate(const iwarp::Terminate& reason) noexcept = 0;

  // A short Send without invalidation, or a short RDMA Write.
  struct Short {
    iwarp::Opcode opcode;
    std::uint32_t stag;  // RDMA Write only, like `to`
    std::uint64_t to;
    std::span<const std::byte> payload;
  };
  // The longest payload that send_short() accepts; may be 0.
  [[nodiscard]] std::size_t most_short(bool write) const noexcept {
    return write ? most_short_write_ : most_short_send_;
  }
  // Fast path instead of begin_*() and build(): copies or sends the payload at once. all_sent()
  // must hold before the first of several such messages, and flush_short() must follow the last.
  // Returns false if begin_*() is needed instead.
  [[nodiscard]] virtual bool send_short(const Short&) noexcept { return false; }
  virtual Flushed flush_short() noexcept { return Flushed::kDone; }
  // send_short() and flush_short() for a single message. Returns false, with nothing done, if
  // send_short() or begin_*() is needed instead. If all_sent() is false afterwards, flush() must be
  // called.
  [[nodiscard]] virtual bool send_at_once(const Short&) noexcept { return false; }

  // Builds about `limit` bytes of the current message, or fewer if flush() has to make room first.
  // Returns true if the message is complete.
  virtual bool build(std::size_t limit) noexcept = 0;
  // Hands over as much of what is built as the lower layer accepts now.
  virtual Flushed flush() noexcept = 0;
  virtual void end_pass() noexcept {}  // called when nothing more is built or flushed for now
  // Positions in the outgoing stream. A message that was complete at position P has been sent when
  // sent() >= P.
  [[nodiscard]] std::uint64_t built() const noexcept { return built_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] bool all_sent() const noexcept { return built_ == sent_; }
  // The position up to which everything was handed over: includes payload that is lent to the peer
  // and not yet returned. Link::kRoom reports its return.
  [[nodiscard]] std::uint64_t handed() const noexcept { return sent_ + lent_; }
  [[nodiscard]] bool all_handed() const noexcept { return built_ == handed(); }
  [[nodiscard]] bool waits_for_loans() const noexcept { return lent_ != 0; }
  // Counts the payload that the peer has returned by now as sent.
  virtual void collect_returned() noexcept {}
  // Called at the end of the link, before close(how): does the same, and revokes all loans. The
  // peer may still read lent memory, but discards what it reads from now on.
  virtual void recall(Close) noexcept {}
  // Whether the link will still read the memory of messages that are built.
  [[nodiscard]] bool refers() const noexcept { return refers_; }
  // The number of bytes that the peer's host has not acknowledged.
  [[nodiscard]] virtual std::size_t unacknowledged() const noexcept = 0;
  // The number of bytes that were sent and have not reached the peer's host: they are lost if the
  // link breaks.
  [[nodiscard]] virtual std::size_t undelivered() const noexcept { return 0; }

  // ---- abilities that only some links have; null if this one lacks them -------------------------
  [[nodiscard]] Confirmations* confirmations() const noexcept { return confirmations_; }
  [[nodiscard]] DirectAccess* direct_access() const noexcept { return direct_access_; }

  // ---- waiting ----------------------------------------------------------------------------------
  // Of the events in `which`, awaits those in `wanted` from now on, and no others. Events that are
  // not in `which` are unchanged. The handler is called as long as an awaited event is pending.
  void want(unsigned which, unsigned wanted) noexcept {
    const unsigned all = (wants_ & ~which) | wanted;
    if (all == wants_) return;
    wants_ = all;
    wait_for(all);
  }
  // Translates the events with which the handler was called.
  [[nodiscard]] virtual unsigned ready(std::uint32_t events) noexcept = 0;
  // Like Handler::look and Handler::rest. look() returns the awaited events that may be pending.
  [[nodiscard]] virtual unsigned look() noexcept { return kInput; }
  [[nodiscard]] virtual bool rest() noexcept { return true; }
  virtual void prepare() const noexcept {}  // like Handler::prepare

  // ---- incoming ---------------------------------------------------------------------------------
  // Reads once and delivers what is complete. Deducts what it has delivered from `work`, as
  // iwarp::Receiver::feed does. If `inbound` is null, delivers nothing: keeps the first message,
  // and returns kFirst once it is complete.
  virtual Received receive(iwarp::Inbound* inbound, std::size_t& work) noexcept = 0;
  // Fast path instead of look() and receive(): delivers short Sends and RDMA Writes that have
  // arrived completely.
  enum class Quick : std::uint8_t {
    kElse,       // nothing was done: call look(), which tells what is pending
    kNothing,    // nothing is pending
    kDelivered,  // messages were delivered, and no bytes are left over
    kRead        // bytes were read, and perhaps messages delivered: call deliver() for the rest
  };
  [[nodiscard]] virtual Quick receive_short(iwarp::Inbound&) noexcept { return Quick::kElse; }
  // Delivers what has been read and not yet delivered.
  virtual void deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept = 0;
  virtual void end_receive_pass() noexcept {}
  [[nodiscard]] const Incoming& incoming() const noexcept { return incoming_; }
  [[nodiscard]] int error() const noexcept { return error_; }

  // Messages that are held back because one of them waits for a receive. release(): called when a
  // receive may have been posted; delivers what can now be delivered, and returns whether anything
  // was delivered.
  virtual bool release(iwarp::Inbound& inbound) noexcept = 0;
  virtual void refuse_held() noexcept = 0;  // fails the first of them for lack of a receive
  virtual void drop_held() noexcept = 0;
  // Offers a receive to the peer, which may then place the payload of the message that will take
  // the receive. REQUIRES: the message has not begun.
  struct Offer {
    const Segment& memory;  // the last segment of the receive
    std::uint32_t before;   // the length of the other segments
    std::uint32_t ahead;    // the number of messages before the message that are not complete
    bool at_once;           // the payload may be placed before those messages are
  };
  virtual void offer_receive(MrTable&, const Offer&, std::uint64_t /*qp*/) noexcept {}
  // Called when the messages for which receives were offered have arrived, and no further receive
  // is offered.
  virtual void end_offers(MrTable&) noexcept {}

  // Stops delivering, for a local reason.
  virtual void fail(const iwarp::Terminate& reason) noexcept = 0;
  // REQUIRES: incoming().failed
  [[nodiscard]] virtual const iwarp::Terminate& failure() const noexcept = 0;

  [[nodiscard]] Movement movement() const noexcept {
    return {sent_, unacknowledged(), incoming_.frames, incoming_.staged};
  }

 protected:
  Link() = default;
  virtual void wait_for(unsigned what) noexcept = 0;

  // The functions that build, flush and receive keep these up to date.
  std::uint64_t built_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t lent_ = 0;
  bool refers_ = false;
  std::size_t most_short_send_ = 0;
  std::size_t most_short_write_ = 0;
  Confirmations* confirmations_ = nullptr;
  DirectAccess* direct_access_ = nullptr;
  Incoming incoming_;
  int error_ = 0;

 private:
  unsigned wants_ = 0;
};

}  // namespace udapl::soft
