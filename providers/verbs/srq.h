// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"
#include "providers/reactor/sink_gate.h"
#include "providers/verbs/work_tag.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace udapl::verbs {

class Adapter;
class Pd;

// Receive buffers shared by QPs, on a verbs SRQ. Thread-safe as described at transport::Srq. Owned
// by an SRQ object.
class Srq final : public transport::Srq {
 public:
  // INSUFFICIENT_RESOURCES; INVALID_PARAMETER: more segments than an SRQ of the device can have.
  // Throws std::bad_alloc.
  static Result<std::unique_ptr<transport::Srq>> create(Adapter& adapter, Pd& pd, int depth,
                                                        int max_segments, transport::SrqSink& sink);
  Srq(Adapter& adapter, transport::SrqSink& sink);  // use create()
  ~Srq() override;
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  DAT_RETURN post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                       DAT_COUNT count) noexcept override;
  // MODEL_NOT_SUPPORTED: the device cannot make it larger.
  Status resize(int depth) override;
  Status set_low_watermark(int mark) noexcept override;
  // Scans the CQs, because verbs does not tell the number.
  [[nodiscard]] int available() const noexcept override;

  [[nodiscard]] ibv_srq* get() const noexcept { return srq_; }
  // Called by Cq when the completion of a buffer was taken off the verbs CQ.
  void taken() noexcept { taken_.fetch_add(1, std::memory_order_release); }

  // ---- for Adapter: called by the driving thread before it acknowledges the event --------------
  void on_limit() noexcept;  // IBV_EVENT_SRQ_LIMIT_REACHED
  void on_error() noexcept;  // IBV_EVENT_SRQ_ERR

 private:
  // Sink calls.
  enum Call : unsigned { kLowWatermark, kSrqError };
  void deliver(unsigned call) noexcept;
  [[gnu::cold, gnu::noinline]] DAT_RETURN post_without_empty(ibv_recv_wr& receive) noexcept;
  DAT_RETURN submit(ibv_recv_wr& receive) noexcept;
  [[gnu::cold, gnu::noinline]] DAT_RETURN not_posted(ibv_recv_wr& receive, int error) noexcept;

  Adapter& adapter_;
  transport::SrqSink& sink_;
  ibv_srq* srq_ = nullptr;
  std::atomic<std::uint32_t> posted_{0};  // written by the poster
  std::atomic<std::uint32_t> taken_{0};
  std::atomic<bool> armed_{false};  // a low watermark is set and has not fired
  SinkGate gate_;
};

}  // namespace udapl::verbs
