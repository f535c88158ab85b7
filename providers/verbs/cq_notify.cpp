// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Cq: when it is armed, what its events mean, and what the sink is told.
#include "providers/verbs/cq.h"

#include <algorithm>

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/queue.h"

namespace udapl::verbs {

namespace {

// The kernel is told of so many events at once that they were seen.
constexpr unsigned kEventsPerAck = 64;

}  // namespace

// While it is armed its event is still to come, and tells of whatever comes before that is read.
void Cq::request_notification() noexcept {
  std::uint32_t arms = arms_.load(std::memory_order_acquire);
  if (is_armed(arms)) return;
  const int error = ibv_req_notify_cq(cq_, solicited_.load(std::memory_order_acquire) ? 1 : 0);
  if (error != 0) {
    if (!adapter_.dead()) UDAPL_TRACE(kError, "ibv_req_notify_cq: %s", ErrnoText(error).c_str());
    return;
  }
  // If the event has come already, it stays unarmed.
  if (arms_.compare_exchange_strong(arms, arms + 1, std::memory_order_acq_rel))
    adapter_.cq_armed(1);
}

void Cq::end_arming() noexcept {
  std::uint32_t arms = arms_.load(std::memory_order_relaxed);
  while (!arms_.compare_exchange_weak(arms, (arms | 1) + 1, std::memory_order_acq_rel)) {
  }
  if (is_armed(arms)) adapter_.cq_armed(-1);
}

void Cq::on_event() noexcept {
  end_arming();
  // As long as the event is not acknowledged, ibv_destroy_cq waits and we exist.
  const bool notification = !filters_.load(std::memory_order_relaxed) || found_notification();
  unsigned acknowledge = 1;
  {
    const ScopedLock events_guard(events_lock_);
    if (!closing_) {
      if (notification) gate_.post(kNotify);
      acknowledge = ++unacknowledged_ == kEventsPerAck ? kEventsPerAck : 0;
      if (acknowledge != 0) unacknowledged_ = 0;
    }
  }
  if (acknowledge != 0) ibv_ack_cq_events(cq_, acknowledge);
}

// What of a batch that was handed out notifies.
void Cq::note_notifications(int count) noexcept {
  handed_notification_ =
      handed_notification_ || std::any_of(work_.begin(), work_.begin() + count, is_notification);
}

// What made the armed CQ fire: a notification, or something quiet? Then the CQ is armed again. It
// may have been handed out already to a thread that does not wait, or be held.
bool Cq::found_notification() noexcept {
  for (bool armed = false;; armed = true) {
    {
      const ScopedLock guard(lock);
      if (closed_) return false;
      int count = 0;
      do {
        count = hold();
        if (count < 0) return true;  // no memory: rather once too often
      } while (count == kBatch);
      if (handed_notification_ || holds_notification()) return true;
    }
    if (armed) return false;
    request_notification();
  }
}

// Whoever arms looks at the completions afterwards, also at those that others were given.
void Cq::arm() noexcept {
  if (filters_.load(std::memory_order_relaxed)) {
    const ScopedLock guard(lock);
    handed_notification_ = false;
  }
  request_notification();
}

void Cq::on_error() noexcept {
  if (overflowed_.exchange(true)) return;
  const ScopedLock events_guard(events_lock_);
  if (!closing_) gate_.post(kOverflow);
}

void Cq::deliver(unsigned call) noexcept {
  if (call == kNotify) {
    sink_.on_notify();
    return;
  }
  UDAPL_TRACE(kError, "CQ %p of %d completions overflowed: its connections break",
              static_cast<void*>(this), depth());
  {
    const ScopedLock guard(lock);
    qps_.for_each([](Queue& queue) { queue.on_failed_work(kInternalWork, IBV_WC_FATAL_ERR); });
  }
  sink_.on_overflow();
}

}  // namespace udapl::verbs
