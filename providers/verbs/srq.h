// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"
#include "providers/verbs/sink_gate.h"
#include "providers/verbs/work_tag.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace udapl::verbs {

class Adapter;
class Pd;

// Receive buffers shared by QPs, on a verbs SRQ. Thread-safe as transport::Srq says. Owned by an
// SRQ object.
class Srq final : public transport::Srq {
 public:
  static Result<std::unique_ptr<transport::Srq>> create(Adapter& adapter, Pd& pd, int depth,
                                                        int max_segments, transport::SrqSink& sink);
  ~Srq() override;
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  DAT_RETURN post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                       DAT_COUNT count) noexcept override;
  Status resize(int depth) override;
  void set_low_watermark(int mark) noexcept override;
  [[nodiscard]] int available() const noexcept override;

  [[nodiscard]] ibv_srq* get() const noexcept { return srq_; }
  // For Cq: a message took a buffer, or its QP flushed it.
  void taken() noexcept { taken_.fetch_add(1, std::memory_order_relaxed); }

  // ---- for Adapter: in the service thread ------------------------------------------------------
  void on_limit() noexcept;  // IBV_EVENT_SRQ_LIMIT_REACHED
  void on_error() noexcept;  // IBV_EVENT_SRQ_ERR

 private:
  ibv_srq* srq_ = nullptr;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace udapl::verbs
