// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/rdmap.h"
#include "providers/soft/iwarp/terminate.h"
#include "providers/soft/iwarp/tx_batch.h"
#include "providers/soft/reach.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace udapl::soft {

class MrTable;
namespace shm {
class Grants;
}

// How a link ends.
enum class Close : std::uint8_t {
  kGently,  // what was sent arrives
  kReset
};

// What lies below a queue: carries whole messages to and from a peer, in order, once. Of messages
// it says and asks what RDMAP does (iwarp::Sender, iwarp::Inbound); how they travel is its own
// business. The iWARP stream is one kind (iwarp_link.h), tests have another.
//
// Outgoing: begin_*() one message, build() until it is wholly built, flush() what is built. The
// memory of a message is pinned by the caller during build(), and during flush() if refers().
// Incoming: when ready() says so, receive(), which delivers to an Inbound.
//
// Not thread-safe: the lock of a Qp protects it. Owned by a Connection, which makes it when its
// peer is found. Virtual calls per message are few; what is asked often is kept in this class.
class Link {
 public:
  // What a link waits for, and what has happened.
  enum What : unsigned {
    kRoom = 1,     // to send more
    kInput = 2,    // something, also the end
    kPeerEnd = 4,  // the peer's end, behind what is not read
    kBroken = 8    // always waited for
  };
  enum class Received : std::uint8_t {
    kMore,
    kNothing,  // that was all for now
    kFirst,    // what was waited for is there, see receive()
    kEnd,      // the peer has closed
    kBroken,   // error() says why
    kNoMemory
  };
  enum class Flushed : std::uint8_t { kDone, kBlocked, kBroken };

  // What has come, as far as it matters to others.
  struct Incoming {
    bool waits = false;             // a message waits for a receive, and all behind it
    bool full = false;              // there is no room to hold more of them
    bool failed = false;            // failure() is what the peer is to be told
    bool failed_in_answer = false;  // ... it was the answer to a Read or atomic that made no sense
    bool mid_frame = false;         // the front of something that cannot be delivered yet is there
    bool mid_message = false;       // bytes or segments of something unfinished were delivered
    std::size_t staged = 0;         // bytes that were read and not delivered
    std::uint64_t frames = 0;       // delivered, ever
    std::uint64_t bytes = 0;        // read, ever
  };
  // Changes with whatever goes out, is acknowledged or comes in.
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
  // Reports what is waited for to `handler`; nothing, at first. INSUFFICIENT_RESOURCES.
  virtual Status watch(Handler& handler) noexcept = 0;
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
  // Responder: gives the peer the answer of the set-up. False: the connection is lost.
  [[nodiscard]] virtual bool answer(std::span<const std::byte> reply) noexcept = 0;
  // No more messages will be sent.
  virtual void finish_output() noexcept = 0;
  // Only the destructor may follow.
  virtual void close(Close how) noexcept = 0;

  // ---- outgoing; of messages as iwarp::Sender says ----------------------------------------------
  using Payload = std::span<const iwarp::IoSpan>;
  virtual void begin_write(std::uint32_t stag, std::uint64_t to, Payload payload,
                           std::uint32_t length) noexcept = 0;
  virtual void begin_send(iwarp::Opcode opcode, std::uint32_t invalidate_stag, Payload payload,
                          std::uint32_t length) noexcept = 0;
  virtual void begin_immediate(const iwarp::ImmediateBytes& data, bool solicited) noexcept = 0;
  virtual void begin_read_request(const iwarp::ReadRequest& request) noexcept = 0;
  virtual void begin_atomic_request(const iwarp::AtomicRequest& request) noexcept = 0;
  virtual void begin_read_response(std::uint32_t stag, std::uint64_t to, Payload payload,
                                   std::uint32_t length) noexcept = 0;
  virtual void begin_atomic_response(const iwarp::AtomicResponse& response) noexcept = 0;
  // The last message; one that is half built stays unfinished.
  virtual void begin_terminate(const iwarp::Terminate& reason) noexcept = 0;

  // In place of all that follows, of short messages whose memory is read at once, the first while
  // all_sent(): a Send without invalidation, or an RDMA Write. False: it has to be begun.
  // flush_short() follows the last one, as flush() does.
  struct Short {
    iwarp::Opcode opcode;
    std::uint32_t stag;  // of an RDMA Write, as `to`
    std::uint64_t to;
    std::span<const std::byte> payload;
  };
  // Longer payloads are refused; the limit may be 0.
  [[nodiscard]] std::size_t most_short(bool write) const noexcept {
    return write ? most_short_write_ : most_short_send_;
  }
  [[nodiscard]] virtual bool send_short(const Short&) noexcept { return false; }
  virtual Flushed flush_short() noexcept { return Flushed::kDone; }

  // About `limit` bytes of the message that was begun; less when no more may be built before
  // flush(), which then hands over some. True: it is wholly built.
  virtual bool build(std::size_t limit) noexcept = 0;
  // Hands over what is built, as much as is taken now.
  virtual Flushed flush() noexcept = 0;
  virtual void end_pass() noexcept {}  // no more is built or flushed for now
  // Positions in the outgoing stream. A message whose building ended at P has left when sent() >=
  // P.
  [[nodiscard]] std::uint64_t built() const noexcept { return built_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] bool all_sent() const noexcept { return built_ == sent_; }
  // So much behind it was handed over as well and is only waited for; Link::kRoom tells.
  [[nodiscard]] std::uint64_t handed() const noexcept { return sent_ + lent_; }
  [[nodiscard]] bool all_handed() const noexcept { return built_ == handed(); }
  [[nodiscard]] bool waits_for_loans() const noexcept { return lent_ != 0; }
  // Counts as sent what the peer has returned by now.
  virtual void collect_returned() noexcept {}
  // The same, at the end of the link; the peer looks at no other memory of messages any more, and
  // takes what it has of them for broken.
  virtual void recall() noexcept {}
  [[nodiscard]] bool refers() const noexcept { return refers_; }  // to the memory of messages
  // Bytes that the peer's host has not confirmed.
  [[nodiscard]] virtual std::size_t unacknowledged() const noexcept = 0;

  // ---- memory that is reached without the peer (docs/adr/0035)
  // ----------------------------------- May reach() do anything?
  [[nodiscard]] bool may_reach() const noexcept { return may_reach_; }
  // An RDMA Write or Read, done at once and in its order, without the peer. `local`: where the
  // bytes are, or go; pinned. False: it has to be sent as a message.
  [[nodiscard]] virtual bool reach(const Reach&, Payload) noexcept { return false; }
  // Does the peer want to be told of memory that it may reach so?
  [[nodiscard]] bool peer_reaches() const noexcept {
    return peer_reaches_ != nullptr && peer_reaches_->load(std::memory_order_relaxed) != 0;
  }
  // What it has been told, of memory in this table; null: it is told nothing.
  virtual shm::Grants* grants(MrTable&) noexcept { return nullptr; }

  // ---- waiting ----------------------------------------------------------------------------------
  // Changes which of `which` are waited for. The handler is called for as long as one of them is
  // so.
  void want(unsigned which, unsigned wanted) noexcept {
    const unsigned all = (wants_ & ~which) | wanted;
    if (all == wants_) return;
    wants_ = all;
    wait_for(all);
  }
  // What the events that the handler was called with mean.
  [[nodiscard]] virtual unsigned ready(std::uint32_t events) noexcept = 0;
  // As Handler::look and Handler::rest; of what is waited for, what may be so.
  [[nodiscard]] virtual unsigned look() noexcept { return kInput; }
  [[nodiscard]] virtual bool rest() noexcept { return true; }

  // ---- incoming ---------------------------------------------------------------------------------
  // One read, and delivers. `work` is used up by what is delivered, as iwarp::Receiver::feed says.
  // Without an inbound the first message is read, and kept.
  virtual Received receive(iwarp::Inbound* inbound, std::size_t& work) noexcept = 0;
  // In place of look() and receive(), while input is all that is waited for: delivers short
  // messages that are there whole and need nothing but a receive. False: nothing was done, look()
  // says what there is.
  [[nodiscard]] virtual bool receive_short(iwarp::Inbound&) noexcept { return false; }
  // What has been read and not delivered.
  virtual void deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept = 0;
  virtual void end_receive_pass() noexcept {}
  [[nodiscard]] const Incoming& incoming() const noexcept { return incoming_; }
  [[nodiscard]] int error() const noexcept { return error_; }

  // Messages that wait for a receive. One may be there: delivers what it lets through; true:
  // something was delivered.
  virtual bool release(iwarp::Inbound& inbound) noexcept = 0;
  virtual void refuse_held() noexcept = 0;  // the first fails for lack of a receive
  virtual void drop_held() noexcept = 0;

  // Nothing more is to be delivered, for a reason of our own.
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
  bool may_reach_ = false;
  std::size_t most_short_send_ = 0;
  std::size_t most_short_write_ = 0;
  const std::atomic<std::uint32_t>* peer_reaches_ = nullptr;  // lives as long as the link
  Incoming incoming_;
  int error_ = 0;

 private:
  unsigned wants_ = 0;
};

}  // namespace udapl::soft
