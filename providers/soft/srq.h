// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/spin_lock.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"
#include "providers/soft/mr_table.h"

#include <memory>
#include <vector>

namespace udapl::soft {

class Reactor;

// Receive buffers shared by QPs. A QP copies a buffer's description out when a message begins, so a
// slot is free again at once, in whatever order messages end. The lock is a leaf. Thread-safe.
// Owned by an SRQ object.
class Srq final : public transport::Srq {
 public:
  // REQUIRES: depth > 0, max_segments > 0. Throws std::bad_alloc.
  Srq(Reactor& reactor, MrTable& memory, ScopeId pd, int depth, int max_segments,
      transport::SrqSink& sink);
  ~Srq() override;  // waits for a running sink call
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  DAT_RETURN post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                       DAT_COUNT count) noexcept override;
  Status resize(int depth) override;
  void set_low_watermark(int mark) noexcept override;
  [[nodiscard]] int available() const noexcept override;
};

}  // namespace udapl::soft
