// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/prefetch.h"
#include "dapl/transport/qp.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/outgoing.h"
#include "providers/soft/qp_shared.h"
#include "providers/soft/srq.h"
#include "providers/soft/work_queue.h"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace udapl::soft {

class Cq;

// The reports of a queue to its Qp, apart from a Fault. Called under the lock of the Qp.
class QueueEnd {
 public:
  virtual void on_soft_watermark() noexcept = 0;

 protected:
  ~QueueEnd() = default;
};

// The receives of a Qp, its own or those of an SRQ. Places messages into them, and counts receives
// for the watermarks. Used under the lock of the Qp. Owned by a Queue.
class ReceiveQueue {
 public:
  // `waits`: whether a message that finds no receive waits for one. `on_buffer`: called by the
  // driving thread when the SRQ has promised a buffer to such a message. Throws std::bad_alloc.
  ReceiveQueue(QpShared& shared, const transport::QpInit& init, Reactor& reactor, bool waits,
               QueueEnd& end, udapl::Call on_buffer);

  // For modify(), as in SendQueue.
  WorkRing<Receive> ring_for(const transport::QpInit& init) UDAPL_REQUIRES(qp_locked);
  void change(const transport::QpInit& init, WorkRing<Receive> receives) noexcept
      UDAPL_REQUIRES(qp_locked);
  Cq* exchange_cq(Cq* cq) noexcept UDAPL_REQUIRES(qp_locked) { return std::exchange(cq_, cq); }
  [[nodiscard]] Cq* cq() const noexcept UDAPL_REQUIRES(qp_locked) { return cq_; }
  [[nodiscard]] bool shared() const noexcept { return srq_ != nullptr; }
  [[nodiscard]] std::uint32_t size() const noexcept UDAPL_REQUIRES(qp_locked) {
    return receives_.size();
  }

  void clear() noexcept UDAPL_REQUIRES(qp_locked);  // keeps posted receives
  void set_mode(const QueueMode& mode) noexcept UDAPL_REQUIRES(qp_locked) {
    flushes_posts_ = mode.posts == Posts::kFlushed;
    connected_ = mode.connected;
  }
  // Waits for an `on_buffer` that runs in another thread. No lock may be held.
  void close() noexcept { buffer_promised_.close(); }

  // Implements transport::Qp::post_recv.
  DAT_RETURN post(transport::WorkId id, std::span<const DAT_LMR_TRIPLET> list,
                  transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked);

  // ---- messages: as in iwarp::Inbound -----------------------------------------------------------
  iwarp::Verdict fill_send(const iwarp::SendSegment& segment, std::uint32_t length,
                           iwarp::Payload& payload) noexcept UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict place_send(const iwarp::SendSegment& segment) noexcept UDAPL_REQUIRES(qp_locked);
  void send_done(const iwarp::SendDone& done) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool take_whole_send(std::span<const std::byte> payload, bool solicited) noexcept
      UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict immediate(const iwarp::ImmediateBytes& data, bool solicited) noexcept
      UDAPL_REQUIRES(qp_locked);

  // If the peer sends large messages, offers it the next receives, so that it can place messages
  // itself (Link::offer_receive). Must not be called within the functions above.
  void offer_next() noexcept UDAPL_REQUIRES(qp_locked) {
    if (offers_until_ != 0) [[unlikely]]
      offer_receives();
  }

  // Whether an unfinished message of the peer occupies a buffer of the SRQ.
  [[nodiscard]] bool occupies_srq() const noexcept UDAPL_REQUIRES(qp_locked) {
    return srq_ != nullptr && receiving_;
  }
  [[nodiscard]] std::uint64_t messages() const noexcept UDAPL_REQUIRES(qp_locked) {
    return messages_;
  }
  void let_go(MrRef ref) noexcept UDAPL_REQUIRES(qp_locked) { kept_.let_go(ref); }
  void prepare() noexcept UDAPL_REQUIRES(qp_locked) {  // see Queue
    for (const std::uint64_t position : {receives_.head(), receives_.tail()}) {
      prefetch_for_write(&receives_.at(position));
      prefetch_for_write(receives_.segments(position));
    }
  }
  void stop_waiting() noexcept UDAPL_REQUIRES(qp_locked);  // stops waiting for a buffer of the SRQ
  void flush() noexcept UDAPL_REQUIRES(qp_locked);         // completes all remaining receives

  // ---- watermarks -------------------------------------------------------------------------------
  void set_watermarks(int soft, int hard) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool watched() const noexcept UDAPL_REQUIRES(qp_locked) {
    return soft_mark_ >= 0 || hard_mark_ >= 0;
  }
  void check_watermarks() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] int held() const noexcept UDAPL_REQUIRES(qp_locked);

 private:
  static constexpr std::uint64_t kOffers = 16;

  [[nodiscard]] bool is_resolved(std::span<const DAT_LMR_TRIPLET> list, Receive& receive) noexcept
      UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool take() noexcept UDAPL_REQUIRES(qp_locked);
  void offer_receives() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool is_apart(const Segment& ours, std::uint32_t ahead) noexcept
      UDAPL_REQUIRES(qp_locked);
  void offer(std::uint32_t ahead) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] iwarp::Verdict without_receive() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] iwarp::Verdict prepare(const iwarp::SendSegment& segment,
                                       std::size_t length) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] iwarp::Verdict check_placed(bool placed) noexcept UDAPL_REQUIRES(qp_locked);
  void complete(const Receive& receive, transport::Completion completion, bool solicited) noexcept
      UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool holds_more_than(int mark) noexcept UDAPL_REQUIRES(qp_locked);

  QpShared& shared_;
  Srq* const srq_;
  const bool waits_;
  QueueEnd& end_;
  Cq* cq_ UDAPL_GUARDED_BY(qp_locked);
  bool solicited_only_ UDAPL_GUARDED_BY(qp_locked);
  bool flushes_posts_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool connected_ UDAPL_GUARDED_BY(qp_locked) = false;

  WorkRing<Receive> receives_ UDAPL_GUARDED_BY(qp_locked);
  bool receiving_ UDAPL_GUARDED_BY(qp_locked) = false;  // a message is being placed in buffer_
  Receive buffer_ UDAPL_GUARDED_BY(qp_locked){};
  DAT_DTO_COMPLETION_STATUS buffer_status_ UDAPL_GUARDED_BY(qp_locked) = DAT_DTO_SUCCESS;
  std::unique_ptr<Segment[]> srq_segments_ UDAPL_GUARDED_BY(qp_locked);
  Scatter scatter_ UDAPL_GUARDED_BY(qp_locked);
  KeptPin kept_ UDAPL_GUARDED_BY(qp_locked);                // of the receives
  std::uint64_t messages_ UDAPL_GUARDED_BY(qp_locked) = 0;  // received so far
  // A message that could have been shared starts offers for the next kOffers messages: they end
  // when messages_ exceeds this number. 0: there are no offers.
  std::uint64_t offers_until_ UDAPL_GUARDED_BY(qp_locked) = 0;
  bool offers_in_series_ UDAPL_GUARDED_BY(qp_locked) = false;     // even if we send nothing between
  std::uint64_t offered_ UDAPL_GUARDED_BY(qp_locked) = 0;         // the last message with an offer
  std::uint64_t built_at_offer_ UDAPL_GUARDED_BY(qp_locked) = 0;  // Link::built() at that offer

  int soft_mark_ UDAPL_GUARDED_BY(qp_locked) = -1;
  int hard_mark_ UDAPL_GUARDED_BY(qp_locked) = -1;
  // With an SRQ: an upper bound of the receive completions of this Qp that are in the CQ.
  int unread_bound_ UDAPL_GUARDED_BY(qp_locked) = 0;

  Deferred buffer_promised_;
  Srq::Waiter srq_waiter_;
};

}  // namespace udapl::soft
