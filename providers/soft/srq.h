// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/spin_lock.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"
#include "providers/reactor/sink_gate.h"
#include "providers/soft/mr_table.h"
#include "providers/soft/work_queue.h"

#include <boost/intrusive/list.hpp>

namespace udapl::soft {

// Receive buffers that QPs share. When a message begins, its QP takes the description of a buffer
// out of the SRQ, so the slot is free again at once, in whatever order messages end. A QP whose
// message finds no buffer waits in a queue: each buffer that is posted then is promised to the QP
// that has waited longest. Thread-safe, leaf lock. Owned by an SRQ object.
class Srq final : public transport::Srq {
 public:
  // A QP's entry in that queue. Owned by the QP, which must call stop_waiting() before destroying
  // it.
  class Waiter {
   public:
    explicit Waiter(Deferred& wake) noexcept : wake_(wake) {}

   private:
    friend class Srq;
    Deferred& wake_;  // posted when a buffer is promised
    bool promised_ = false;
    boost::intrusive::list_member_hook<> hook_;
  };

  // REQUIRES: depth > 0, max_segments > 0. Throws std::bad_alloc.
  Srq(Reactor& reactor, MrTable& memory, ScopeId pd, int depth, int max_segments,
      transport::SrqSink& sink);
  ~Srq() override = default;
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  DAT_RETURN post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                       DAT_COUNT count) noexcept override;
  Status resize(int depth) override;
  Status set_low_watermark(int mark) noexcept override;
  [[nodiscard]] int available() const noexcept override;

  // ---- for Qp: called with the QP's lock held --------------------------------------------------
  [[nodiscard]] int max_segments() const noexcept { return max_segments_; }
  // Takes the oldest buffer; `segments` must have room for max_segments(). If there is no buffer,
  // or all are promised to other QPs, queues `waiter` and returns false.
  [[nodiscard]] bool take(Receive& out, Segment* segments, Waiter& waiter) noexcept
      UDAPL_EXCLUDES(lock_);
  // Removes `waiter` from the queue. A buffer that was promised to it is promised to the next
  // waiter.
  void stop_waiting(Waiter& waiter) noexcept UDAPL_EXCLUDES(lock_);

 private:
  enum Call : unsigned { kLowWatermark };
  void deliver(unsigned call) noexcept;
  void check_low_watermark() noexcept UDAPL_REQUIRES(lock_);
  void promise() noexcept UDAPL_REQUIRES(lock_);

  using WaitQueue = boost::intrusive::list<
      Waiter,
      boost::intrusive::member_hook<Waiter, boost::intrusive::list_member_hook<>, &Waiter::hook_>>;

  MrTable& memory_;
  const ScopeId pd_;
  const int max_segments_;
  transport::SrqSink& sink_;
  mutable SpinLock lock_;
  WorkRing<Receive> buffers_ UDAPL_GUARDED_BY(lock_);
  WaitQueue wait_queue_ UDAPL_GUARDED_BY(lock_);        // empty if any buffer is not promised
  std::uint32_t promised_ UDAPL_GUARDED_BY(lock_) = 0;  // number of promised buffers
  std::uint32_t low_watermark_ UDAPL_GUARDED_BY(lock_) = 0;
  SinkGate gate_;
};

}  // namespace udapl::soft
