// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/cq_patrol.h"

#include <algorithm>

#include "providers/verbs/barrier.h"
#include "providers/verbs/cq.h"

namespace udapl::verbs {

void CqPatrol::join(Cq& cq) {
  const ScopedLock lock(lock_);
  chosen_.reserve(cqs_.size() + 1);
  cqs_.push_back(&cq);
}

void CqPatrol::leave(Cq& cq) noexcept {
  const ScopedLock lock(lock_);
  std::erase(cqs_, &cq);
}

void CqPatrol::start() noexcept {
  const ScopedLock lock(lock_);
  if (started_) return;
  started_ = true;
  timer_.start_after(kInterval);
}

void CqPatrol::look() noexcept {
  const ScopedLock lock(lock_);
  look_into_all(false);
}

void CqPatrol::look_into(Cq& cq) noexcept {
  const ScopedLock lock(lock_);
  chosen_.clear();
  if (!cq.begin_look(false)) return;
  chosen_.push_back(&cq);
  look_into_chosen();
}

void CqPatrol::on_timer() noexcept {
  const ScopedLock lock(lock_);
  look_into_all(true);
  started_ = std::any_of(cqs_.begin(), cqs_.end(), [](Cq* cq) { return cq->has_qps(); });
  if (started_) timer_.start_after(kInterval);
}

void CqPatrol::look_into_all(bool only_idle) noexcept {
  chosen_.clear();
  for (Cq* const cq : cqs_)
    if (cq->begin_look(only_idle)) chosen_.push_back(cq);
  if (!chosen_.empty()) look_into_chosen();
}

// One barrier for all of them.
void CqPatrol::look_into_chosen() noexcept {
  if (has_process_barrier()) process_barrier();
  for (Cq* const cq : chosen_) cq->end_look();
}

}  // namespace udapl::verbs
