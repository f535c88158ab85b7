// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/spin_lock.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"
#include "providers/reactor/sink_gate.h"
#include "providers/soft/mr_table.h"
#include "providers/soft/work_queue.h"

#include <optional>

namespace udapl::soft {

// Receive buffers shared by QPs. A QP copies a buffer's description out when a message begins, so
// its slot is free again at once, in whatever order the messages end. The lock is a leaf.
// Thread-safe. Owned by an SRQ object.
class Srq final : public transport::Srq {
 public:
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
  // Takes the oldest buffer; `segments` has room for max_segments(). False: there is none.
  [[nodiscard]] bool take(Receive& out, Segment* segments) noexcept UDAPL_EXCLUDES(lock_);

 private:
  enum Call : unsigned { kLowWatermark };
  void deliver(unsigned call) noexcept;
  void check_low_watermark() noexcept UDAPL_REQUIRES(lock_);

  MrTable& memory_;
  const ScopeId pd_;
  const int max_segments_;
  transport::SrqSink& sink_;
  mutable SpinLock lock_;
  WorkRing<Receive> buffers_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t low_watermark_ UDAPL_GUARDED_BY(lock_) = 0;
  SinkGate gate_;
};

}  // namespace udapl::soft
