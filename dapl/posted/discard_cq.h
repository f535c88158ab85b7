// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/spin_lock.h"
#include "dapl/objects/object.h"
#include "dapl/transport/adapter.h"

#include <memory>

namespace udapl::dapl {

// The CQ of an EP direction that has no EVD: completions are discarded and only free the slots of
// their requests. Thread-safe. Owned by an Ep, outlives its QP.
class DiscardCq {
 public:
  // `depth`: requests that can be outstanding. `eager`: discards completions as they arrive,
  // because other EPs wait for the slots (an SRQ); otherwise drain() discards them.
  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  static Result<std::unique_ptr<DiscardCq>> make(transport::Adapter& adapter, int depth,
                                                 bool eager);

  DiscardCq() = default;
  DiscardCq(const DiscardCq&) = delete;
  DiscardCq& operator=(const DiscardCq&) = delete;

  [[nodiscard]] transport::Cq& cq() const noexcept { return *cq_; }
  // Discards all queued completions.
  void drain() noexcept UDAPL_EXCLUDES(cq_->lock);

 private:
  struct Sink final : transport::CqSink {
    explicit Sink(DiscardCq& owner) noexcept : discard(owner) {}
    void on_notify() noexcept override;
    void on_overflow() noexcept override;
    DiscardCq& discard;
  };

  Sink sink_{*this};
  std::unique_ptr<transport::Cq> cq_;  // last: its end waits for a running sink call
};

}  // namespace udapl::dapl
