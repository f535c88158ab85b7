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

#include <optional>

namespace udapl::soft {

// Receive buffers shared by QPs. A QP copies a buffer's description out when a message begins, so
// its slot is free again at once, in whatever order the messages end. QPs whose messages find none
// wait in line: each buffer that is posted is promised to the one that has waited longest. The lock
// is a leaf. Thread-safe. Owned by an SRQ object.
class Srq final : public transport::Srq {
 public:
  // A QP's place in that line. Owned by the QP, which leaves the line before it destroys this.
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

  // ---- for Qp: called with its lock held -------------------------------------------------------
  [[nodiscard]] int max_segments() const noexcept { return max_segments_; }
  // Takes the oldest buffer; `segments` has room for max_segments(). False: there is none that is
  // not promised to another QP, and `waiter` stands in line.
  [[nodiscard]] bool take(Receive& out, Segment* segments, Waiter& waiter) noexcept
      UDAPL_EXCLUDES(lock_);
  // Takes `waiter` out of the line; what it was promised goes to the next.
  void leave(Waiter& waiter) noexcept UDAPL_EXCLUDES(lock_);

 private:
  enum Call : unsigned { kLowWatermark };
  void deliver(unsigned call) noexcept;
  void check_low_watermark() noexcept UDAPL_REQUIRES(lock_);
  void promise() noexcept UDAPL_REQUIRES(lock_);

  using Line = boost::intrusive::list<
      Waiter,
      boost::intrusive::member_hook<Waiter, boost::intrusive::list_member_hook<>, &Waiter::hook_>>;

  MrTable& memory_;
  const ScopeId pd_;
  const int max_segments_;
  transport::SrqSink& sink_;
  mutable SpinLock lock_;
  WorkRing<Receive> buffers_ UDAPL_GUARDED_BY(lock_);
  Line line_ UDAPL_GUARDED_BY(lock_);                   // empty while a buffer is not promised
  std::uint32_t promised_ UDAPL_GUARDED_BY(lock_) = 0;  // buffers
  std::uint32_t low_watermark_ UDAPL_GUARDED_BY(lock_) = 0;
  SinkGate gate_;
};

}  // namespace udapl::soft
