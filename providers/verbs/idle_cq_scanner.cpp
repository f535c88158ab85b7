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
  timer_.start_after(interval_);
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
  if (started_) timer_.start_after(interval_);
}

}  // namespace udapl::verbs
