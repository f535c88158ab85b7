// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/idle_cq_scanner.h"

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
  if (started_) return;
  started_ = true;
  timer_.start_after(kInterval);
}

void IdleCqScanner::scan_all() noexcept {
  const ScopedLock lock(lock_);
  for (Cq* const cq : cqs_) cq->scan();
}

void IdleCqScanner::on_timer() noexcept {
  const ScopedLock lock(lock_);
  started_ = false;
  for (Cq* const cq : cqs_)
    if (cq->scan_if_idle()) started_ = true;
  if (started_) timer_.start_after(kInterval);
}

}  // namespace udapl::verbs
