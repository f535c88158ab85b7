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
  kGently,  // everything sent before still arrives, and the peer finds an orderly end
  kReset
};

// The layer below a queue: carries whole messages to and from a peer, in order, exactly once. Its
// interface speaks of messages as RDMAP does (iwarp::Sender, iwarp::Inbound) and hides how they are
// transported. The iWARP stream is one implementation (iwarp_link.h); tests have another.
//
// Outgoing: begin_*() one message, build() until it is complete, flush() what is built. The caller
// pins the memory of a message during build(), and during flush() if refers(). A link to a peer on
// this host may offer more: confirmations(), direct_access().
// Incoming: when ready() reports input, call receive(), which delivers to an Inbound.
//
// Not thread-safe: protected by the lock of a Qp. Owned by a Connection, which creates it when the
// peer is connected. There are few virtual calls per message: values that are read often are
// members of this class.
class Link {
 public:
  // Events that a link waits for, and reports.
  enum What : unsigned {
    kRoom = 1,     // more can be sent
    kInput = 2,    // there is input, or the end of the stream
    kPeerEnd = 4,  // the peer has closed; unread input may come before that
    kBroken = 8,   // always waited for
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
    kNoReader,  // the peer takes no more; the input ends, too, and tells how
    kBroken
  };

  // The state of the input, as far as others need it.
  struct Incoming {
    bool waits = false;             // a message waits for a receive, and all later input with it
    bool full = false;              // no more input can be held back
    bool failed = false;            // the input was invalid; failure() must be sent to the peer
    bool failed_in_answer = false;  // ... it was an answer to a Read or atomic of ours
    bool mid_frame = false;         // an incomplete frame has arrived
    bool torn = false;              // the stream has ended within a frame, and not on purpose
    std::size_t staged = 0;         // bytes read and not yet delivered
    std::size_t buffer = 0;         // ... the memory that holds them, at the end of a pass
    std::uint64_t frames = 0;       // delivered since the beginning
    std::uint64_t bytes = 0;        // read since the beginning
  };
  // Changes whenever anything is sent, acknowledged or received.
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
  // From now on, `handler` is called for the events that are waited for; at first, for none.
  // INSUFFICIENT_RESOURCES.
  virtual Status watch(Handler& handler) noexcept = 0;
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
  // Responder: sends the reply of the connection set-up. Returns false if the connection is lost.
  [[nodiscard]] virtual bool answer(std::span<const std::byte> reply) noexcept = 0;
  // No more messages will be sent.
  virtual void finish_output() noexcept = 0;
  // Called before close(kGently), with the memory of messages pinned if refers(): keeps what the
  // peer needs to find an orderly end, even within a message. Returns false if that is impossible.
  [[nodiscard]] virtual bool prepare_end() noexcept { return true; }
  // Only the destructor may follow.
  virtual void close(Close how) noexcept = 0;

  // ---- outgoing; messages as in iwarp::Sender ---------------------------------------------------
  using Payload = std::span<const iwarp::IoSpan>;
  virtual void begin_write(std::uint32_t stag, std::uint64_t to, Payload payload,
                           std::uint32_t length) noexcept = 0;
  virtual void begin_send(iwarp::Opcode opcode, std::uint32_t invalidate_stag, Payload payload,
                          std::uint32_t length) noexcept = 0;
  // Whether a Send of this length should rather begin when Link::kRoom is reported.
  [[nodiscard]] virtual bool puts_off_send(std::uint32_t /*length*/) noexcept { return false; }
  virtual void begin_immediate(const iwarp::ImmediateBytes& data, bool solicited) noexcept = 0;
  virtual void begin_read_request(const iwarp::ReadRequest& request) noexcept = 0;
  virtual void begin_atomic_request(const iwarp::AtomicRequest& request) noexcept = 0;
  virtual void begin_read_response(std::uint32_t stag, std::uint64_t to, Payload payload,
                                   std::uint32_t length) noexcept = 0;
  virtual void begin_atomic_response(const iwarp::AtomicResponse& response) noexcept = 0;
  // The number that the next Send, or immediate data, gets.
  [[nodiscard]] virtual std::uint32_t next_send() const noexcept = 0;
  // The last message. A message that is being built stays unfinished.
  virtual void begin_terminate(const iwarp::Terminate& reason) noexcept = 0;

  // Fast path for a short Send without invalidation, or RDMA Write, instead of begin_*() and
  // build(): reads the memory at once. all_sent() must hold before the first of several such
  // messages, and flush_short() must follow the last. Returns false if begin_*() is needed instead.
  struct Short {
    iwarp::Opcode opcode;
    std::uint32_t stag;  // of an RDMA Write, as `to`
    std::uint64_t to;
    std::span<const std::byte> payload;
  };
  // The longest payload that send_short() accepts; may be 0.
  [[nodiscard]] std::size_t most_short(bool write) const noexcept {
    return write ? most_short_write_ : most_short_send_;
  }
  [[nodiscard]] virtual bool send_short(const Short&) noexcept { return false; }
  virtual Flushed flush_short() noexcept { return Flushed::kDone; }
  // send_short() and flush_short() for a single message. Returns false, with nothing done, if those
  // or begin_*() must be called instead. Unless all_sent() afterwards, flush() must be called.
  [[nodiscard]] virtual bool send_at_once(const Short&) noexcept { return false; }

  // Builds about `limit` bytes of the message that was begun, or fewer if flush() has to hand over
  // some first. Returns true if the message is complete.
  virtual bool build(std::size_t limit) noexcept = 0;
  // Hands over as much of what is built as the lower layer accepts now.
  virtual Flushed flush() noexcept = 0;
  virtual void end_pass() noexcept {}  // no more is built or flushed for now
  // Positions in the outgoing stream. A message that was complete at position P has been sent when
  // sent() >= P.
  [[nodiscard]] std::uint64_t built() const noexcept { return built_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] bool all_sent() const noexcept { return built_ == sent_; }
  // Includes payload that is lent to the peer: handed over, but not yet returned. Link::kRoom
  // reports its return.
  [[nodiscard]] std::uint64_t handed() const noexcept { return sent_ + lent_; }
  [[nodiscard]] bool all_handed() const noexcept { return built_ == handed(); }
  [[nodiscard]] bool waits_for_loans() const noexcept { return lent_ != 0; }
  // Counts what the peer has returned by now as sent.
  virtual void collect_returned() noexcept {}
  // The same, at the end of the link, before close(how). Afterwards the peer no longer reads the
  // memory of messages, and discards what it has read of incomplete ones.
  virtual void recall(Close) noexcept {}
  // Whether what is built refers to the memory of messages.
  [[nodiscard]] bool refers() const noexcept { return refers_; }
  // Bytes that the peer's host has not acknowledged.
  [[nodiscard]] virtual std::size_t unacknowledged() const noexcept = 0;
  // The bytes that were sent and have not reached the peer's host: they are lost with the link.
  [[nodiscard]] virtual std::size_t undelivered() const noexcept { return 0; }

  // ---- what not every link can do: null if this one cannot --------------------------------------
  [[nodiscard]] Confirmations* confirmations() const noexcept { return confirmations_; }
  [[nodiscard]] DirectAccess* direct_access() const noexcept { return direct_access_; }

  // ---- waiting ----------------------------------------------------------------------------------
  // Waits for `wanted` among the events in `which`; the others are not changed. The handler is
  // called as long as one of the awaited events is pending.
  void want(unsigned which, unsigned wanted) noexcept {
    const unsigned all = (wants_ & ~which) | wanted;
    if (all == wants_) return;
    wants_ = all;
    wait_for(all);
  }
  // Translates the events with which the handler was called.
  [[nodiscard]] virtual unsigned ready(std::uint32_t events) noexcept = 0;
  // Like Handler::look and Handler::rest. look() returns which awaited events may be pending.
  [[nodiscard]] virtual unsigned look() noexcept { return kInput; }
  [[nodiscard]] virtual bool rest() noexcept { return true; }
  virtual void prepare() const noexcept {}  // like Handler::prepare

  // ---- incoming ---------------------------------------------------------------------------------
  // Reads once and delivers. Deducts what is delivered from `work`, as iwarp::Receiver::feed does.
  // Without an inbound, reads the first message and keeps it.
  virtual Received receive(iwarp::Inbound* inbound, std::size_t& work) noexcept = 0;
  // Fast path instead of look() and receive(), while only input is awaited: delivers short messages
  // that have arrived completely and need at most a receive.
  enum class Quick : std::uint8_t {
    kElse,       // it did nothing: look() tells what is pending
    kNothing,    // nothing is pending
    kDelivered,  // and no bytes are left over
    kRead        // has read, and maybe delivered: call deliver() for the rest
  };
  [[nodiscard]] virtual Quick receive_short(iwarp::Inbound&) noexcept { return Quick::kElse; }
  // Delivers what has been read and not yet delivered.
  virtual void deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept = 0;
  virtual void end_receive_pass() noexcept {}
  [[nodiscard]] const Incoming& incoming() const noexcept { return incoming_; }
  [[nodiscard]] int error() const noexcept { return error_; }

  // Messages that wait for a receive. release(): one may have been posted; delivers what can now be
  // delivered, and returns whether anything was.
  virtual bool release(iwarp::Inbound& inbound) noexcept = 0;
  virtual void refuse_held() noexcept = 0;  // the first of them fails for lack of a receive
  virtual void drop_held() noexcept = 0;
  // The peer may be allowed to place the payload of a message in the receive that it takes.
  // REQUIRES: the message has not begun.
  struct Offer {
    const Segment& memory;  // the last segment of the receive
    std::uint32_t before;   // the length of the other segments
    std::uint32_t ahead;    // the messages before it, from the first that is not complete
    bool at_once;           // it may be placed before those
  };
  virtual void offer_receive(MrTable&, const Offer&, std::uint64_t /*qp*/) noexcept {}
  // The messages for which receives were offered have arrived, and no other is offered.
  virtual void end_offers(MrTable&) noexcept {}

  // Delivers nothing from now on, for a local reason.
  virtual void fail(const iwarp::Terminate& reason) noexcept = 0;
  // REQUIRES: incoming().failed
  [[nodiscard]] virtual const iwarp::Terminate& failure() const noexcept = 0;

  [[nodiscard]] Movement movement() const noexcept {
    return {sent_, unacknowledged(), incoming_.frames, incoming_.staged};
  }

 protected:
  Link() = default;
  virtual void wait_for(unsigned what) noexcept = 0;

  // Kept up to date by build() and flush(), and by whatever receives.
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
