// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/posted/discard_cq.h"

#include "common/mutex.h"
#include "common/tracing/trace.h"
#include "dapl/posted/completion.h"

#include <algorithm>

namespace udapl::dapl {

Result<std::unique_ptr<DiscardCq>> DiscardCq::make(transport::Adapter& adapter, int depth,
                                                   bool eager) {
  auto discard = std::make_unique<DiscardCq>();
  auto cq = adapter.create_cq(std::max(depth, 1), discard->sink_);
  if (!cq.ok()) return cq.status();
  discard->cq_ = *std::move(cq);
  if (eager) discard->cq_->arm();
  return discard;
}

void DiscardCq::drain() noexcept {
  constexpr int kBatch = 16;
  transport::Completion batch[kBatch];
  const ScopedLock lock(cq_->lock);
  for (int count = kBatch; count == kBatch;) {
    count = cq_->poll(batch, kBatch);
    for (int i = 0; i < count; ++i) retire(batch[i]);
  }
}

void DiscardCq::Sink::on_notify() noexcept {
  discard.drain();
  discard.cq_->arm();
  discard.drain();  // completions that arrived before the arming do not notify
}

void DiscardCq::Sink::on_overflow() noexcept {
  UDAPL_TRACE(kError, "the CQ of a direction without EVD overflowed");
}

}  // namespace udapl::dapl
