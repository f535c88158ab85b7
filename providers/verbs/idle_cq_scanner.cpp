// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/idle_cq_scanner.h"

#include <algorithm>

#include "providers/verbs/cq.h"

namespace udapl::verbs {

void IdleCqScanner::join(Cq& cq) {
  const ScopedLock lock(lock_);
  cqs_.push_back(&cq);
}

void IdleCqScanner::leave(Cq& cq) noexcept {
  const ScopedLock lock(lock_);
  std::erase(cqs_, &cq);
}

void IdleCqScanner::start() noexcept {
  const ScopedLock lock(lock_);
  if (started_ && interval_ == kInterval) return;
  started_ = true;
  interval_ = kInterval;
  start_timer();
}

// With the shortest interval no scan is made early: CQs would then often count as not polled.
void IdleCqScanner::start_timer() noexcept {
  const Clock::time_point now = Clock::now();
  timer_.start(now + interval_);
  const Clock::time_point soon = interval_ > kInterval ? now + interval_ * kEarliest / 4 : kNever;
  soon_.store(soon.time_since_epoch().count(), std::memory_order_relaxed);
}

void IdleCqScanner::scan_all() noexcept {
  const ScopedLock lock(lock_);
  for (Cq* const cq : cqs_) cq->scan();
}

void IdleCqScanner::on_timer() noexcept {
  const ScopedLock lock(lock_);
  started_ = false;
  bool idle = false;
  for (Cq* const cq : cqs_) {
    const Cq::Scan scan = cq->scan_if_idle();
    if (scan != Cq::Scan::kNoQps) started_ = true;
    if (scan == Cq::Scan::kIdle) idle = true;
  }
  interval_ = idle ? kInterval : std::min(2 * interval_, kLongestInterval);
  if (started_)
    start_timer();
  else
    soon_.store(kNever.time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace udapl::verbs
