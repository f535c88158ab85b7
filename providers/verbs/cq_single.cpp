// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Cq: on a verbs CQ for a single thread (docs/adr/0021).
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "common/errno_text.h"
#include "common/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/barrier.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/trace_points.h"

namespace udapl::verbs {

namespace {

// Of a device that does not have what it is asked for.
bool is_refusal(int error) noexcept {
  return error == EOPNOTSUPP || error == EINVAL || error == ENOSYS;
}

Cq& ours(const ibv_cq& cq) noexcept { return *static_cast<Cq*>(cq.cq_context); }

}  // namespace

ibv_cq* Cq::make(int depth) noexcept {
  ibv_context* const context = adapter_.context();
  const int vector = adapter_.next_completion_vector();
  int refusal = 0;
  // Without process_barrier() nobody could be kept out but by the lock.
  if (adapter_.single_threaded_cqs() && has_process_barrier()) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = static_cast<std::uint32_t>(depth);
    wanted.cq_context = this;
    wanted.channel = adapter_.cq_channel();
    wanted.comp_vector = static_cast<std::uint32_t>(vector);
    wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    ibv_cq_ex* const made = point::made("ibv_create_cq_ex", ibv_create_cq_ex(context, &wanted));
    single_threaded_ = made != nullptr;
    if (made != nullptr) return ibv_cq_ex_to_cq(made);
    refusal = errno;
    if (!is_refusal(refusal)) return nullptr;
  }
  ibv_cq* const made = point::made(
      "ibv_create_cq", ibv_create_cq(context, depth, this, adapter_.cq_channel(), vector));
  if (made != nullptr && refusal != 0) {
    UDAPL_TRACE(kDetail, "%s has no CQs for a single thread: %s", adapter_.device().name.c_str(),
                ErrnoText(refusal).c_str());
    adapter_.no_single_threaded_cqs();
  }
  return made;
}

Cq::Access::Access(Cq& cq) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS : cq_(cq) {
  for (cq_.lock_.lock(); (cq_.mode_ & kTaken) != 0; cq_.lock_.lock()) {
    cq_.lock_.unlock();
    ::sched_yield();
  }
}

Cq::Access::~Access() { cq_.lock_.unlock(); }

// Who had the lock has left the verbs CQ, who wants it waits, and the consumer is where he sees the
// closed gate.
void Cq::take() noexcept {
  for (;;) {
    {
      const ScopedLock lock(lock_);
      if ((mode_ & kTaken) == 0) {
        set_mode(kTaken, true);
        break;
      }
    }
    ::sched_yield();
  }
  if (&poll_gate_ == &own_gate_) return;  // nobody comes through it
  process_barrier();
  wait_for_consumer();
}

void Cq::give_back() noexcept {
  const ScopedLock lock(lock_);
  set_mode(kTaken, false);
}

// In the order of their addresses, so that two of them never wait for each other.
Cq::Exclusion::Exclusion(const ibv_cq& one, const ibv_cq& other) noexcept
    : first_(&ours(one)), second_(&ours(other)) {
  if (std::less<>()(second_, first_)) std::swap(first_, second_);
  if (second_ == first_ || !second_->single_threaded_) second_ = nullptr;
  if (!first_->single_threaded_) first_ = nullptr;
  if (first_ != nullptr) first_->take();
  if (second_ != nullptr) second_->take();
}

Cq::Exclusion::~Exclusion() {
  if (second_ != nullptr) second_->give_back();
  if (first_ != nullptr) first_->give_back();
}

// The consumer does not poll while he arms; the driver may.
void Cq::arm() noexcept {
  if (!single_threaded_) return request_notification();
  const Access access(*this);
  request_notification();
}

void Cq::arm_beside_consumer() noexcept {
  const Exclusion alone(*this);
  request_notification();
}

}  // namespace udapl::verbs
