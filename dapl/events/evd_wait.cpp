// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/tracing/trace.h"
#include "dapl/events/cno.h"
#include "dapl/events/evd.h"
#include "dapl/events/wait_cancellably.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"
#include "dapl/objects/trace_points.h"

#include <algorithm>
#include <limits>
#include <utility>

// dat_evd_wait. The order of its steps keeps wake-ups from being lost: become the waiter, arm,
// check, sleep. An event that arrives after the check notifies and ends the sleep; the check finds
// one that arrived before.
namespace udapl::dapl {

namespace {

// If an EVD has a CQ, existing programs compare its codes without class bits
// (docs/compatibility.md C19, docs/compatibility.md C20).
DAT_RETURN soft_error(const transport::Cq* cq, DAT_RETURN type) noexcept {
  return cq != nullptr ? type : dat_error(type);
}

DAT_COUNT to_count(std::size_t count) noexcept {
  return static_cast<DAT_COUNT>(
      std::min<std::size_t>(count, std::numeric_limits<DAT_COUNT>::max()));
}

}  // namespace

// Sequentially consistent with Visits::enter(): a thread that enters a closing Ia sees the refusal.
void Evd::update_wait_gate() noexcept {
  wait_refused_.store(aborted_ || !waitable_ || lost_completions_, std::memory_order_seq_cst);
}

DAT_COUNT Evd::count_rest() noexcept { return to_count(count_events(kAll)); }

bool Evd::dequeue_counting(DAT_EVENT* event, DAT_COUNT* more) noexcept {
  std::size_t rest = 0;
  if (!dequeue_and_count(event, &rest)) return false;
  *more = to_count(rest);
  return true;
}

Status Evd::claim_waiter(std::size_t threshold) noexcept {
  const ScopedLock lock(notify_lock_);
  if (aborted_)
    UDAPL_REFUSE(DAT_ABORT, DAT_NO_SUBTYPE, "EVD %p: the IA is being closed",
                 static_cast<void*>(this));
  if (waited())
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_NO_SUBTYPE, "EVD %p has a waiter",
                 static_cast<void*>(this));
  if (!waitable_)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE, "EVD %p is unwaitable",
                 static_cast<void*>(this));
  if (lost_completions_)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_NO_SUBTYPE, "EVD %p has lost completions",
                 static_cast<void*>(this));
  const DAT_EVD_STATE mode = streams_.configuration();
  if (threshold > 1 && mode != DAT_EVD_STATE_CONFIG_THRESHOLD)
    UDAPL_REFUSE(DAT_INVALID_STATE,
                 mode == DAT_EVD_STATE_CONFIG_NOTIFY ? DAT_INVALID_STATE_EVD_CONFIG_NOTIFY
                                                     : DAT_INVALID_STATE_EVD_CONFIG_SOLICITED,
                 "EVD %p: threshold %zu, but the consumer controls notification",
                 static_cast<void*>(this), threshold);
  notified_.store(false, std::memory_order_relaxed);
  must_return_ = false;
  dequeue_gate.fetch_or(kWaited, std::memory_order_release);
  if (cno_ && cq_ != nullptr) cno_->hide(*cq_);
  return Status();
}

DAT_RETURN Evd::interruption() const noexcept {
  const ScopedLock lock(notify_lock_);
  if (aborted_) return dat_error(DAT_ABORT);
  if (must_return_ || lost_completions_) return dat_error(DAT_INVALID_STATE);
  return DAT_SUCCESS;
}

WaitResult Evd::block(std::uint32_t seen, const Deadline& deadline) noexcept {
  if (cq_ != nullptr)
    if (const auto result = cq_->block(word_, seen, deadline)) return *result;
  return ia->adapter().block(word_, seen, deadline);
}

DAT_RETURN Evd::wait_for(std::size_t threshold, const Deadline& deadline,
                         const WaitVisit& visit) noexcept {
  const auto goes_on = [this] {  // after a signal: docs/compatibility.md C20
    const ScopedLock lock(notify_lock_);
    return cq_ == nullptr || cno_;
  };
  // For threshold 1 the fast path has already looked for an event. For a higher threshold, count
  // first: the CQ need not be armed if enough events are queued.
  for (bool looked = threshold == 1;; looked = false) {
    if (!looked && count_events(threshold) >= threshold) return DAT_SUCCESS;
    if (trace::enabled(trace::kDetail)) [[unlikely]]
      point::arm(*this, "waits");
    if (cq_ != nullptr) cq_->arm_to_block();
    const std::size_t queued = count_events(threshold);
    if (queued >= threshold) return DAT_SUCCESS;
    if (cq_ != nullptr && threshold - queued > 1) cq_->await_several(threshold - queued);
    // Only a notification makes the waiter check again: it sleeps through other events.
    for (;;) {
      const std::uint32_t seen = word_.value();
      if (notified_.exchange(false, std::memory_order_acquire)) {
        if (trace::enabled(trace::kDetail)) [[unlikely]]
          point::wake(*this, "checks again");
        if (threshold == 1) return DAT_SUCCESS;  // the caller takes the event, if there is one
        break;
      }
      if (const DAT_RETURN code = interruption(); code != DAT_SUCCESS) return code;
      const WaitResult result = block(seen, deadline);
      if (visit.left()) [[unlikely]]
        return dat_error(DAT_ABORT);
      if (result == WaitResult::kChanged || notified_.load(std::memory_order_acquire)) continue;
      if (result == WaitResult::kSleptLong) return kWaitAgain;
      if (result == WaitResult::kInterrupted && goes_on()) continue;
      return soft_error(
          cq_, result == WaitResult::kInterrupted ? DAT_INTERRUPTED_CALL : DAT_TIMEOUT_EXPIRED);
    }
  }
}

Upcall Evd::release_waiter(DAT_RETURN code) noexcept {
  WaitWord::Wakeup wakeup;
  const ScopedLock lock(notify_lock_);
  leaving_.fetch_add(1, std::memory_order_relaxed);
  dequeue_gate.fetch_and(~kWaited, std::memory_order_release);
  arm_for_cno();
  if (code != DAT_SUCCESS && notified_.load(std::memory_order_relaxed) && cno_ &&
      enabled_.load(std::memory_order_relaxed))
    return cno_->trigger(*this, wakeup);
  return Upcall();
}

// One call of dat_evd_wait, used by one thread. The thread is the EVD's waiter from the moment when
// sleep() has claimed that until end(), or until the thread is cancelled. It stays the waiter
// between two calls of sleep(), when it checks whether it is cancelled: dat_evd_free must not
// succeed then.
class Evd::Wait {
 public:
  Wait() = default;
  ~Wait() {
    DAT_COUNT more = 0;
    end(dat_error(DAT_INTERRUPTED_CALL), &more);
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  // Blocks. kWaitAgain: call again, nothing has happened for some seconds.
  [[nodiscard]] DAT_RETURN sleep(Evd& evd, const Deadline& deadline, DAT_COUNT threshold,
                                 DAT_EVENT* event) noexcept {
    const auto enough = static_cast<std::size_t>(threshold);
    if (evd_ == nullptr) {
      visit_.begin(evd.ia->visits());
      if (const Status status = evd.claim_waiter(enough); !status.ok()) {
        visit_.end();
        return status.code();
      }
      evd_ = &evd;
    }
    DAT_RETURN code = DAT_SUCCESS;
    do {
      code = evd.wait_for(enough, deadline, visit_);
      // The completions that were counted are gone if their EP was freed meanwhile.
    } while (code == DAT_SUCCESS && !evd.dequeue_any(event));
    return code;
  }
  void end(DAT_RETURN code, DAT_COUNT* more) noexcept {
    if (evd_ == nullptr) return;
    Evd& evd = *std::exchange(evd_, nullptr);
    if (visit_.left()) [[unlikely]]
      return;
    evd.release_waiter(code).run();
    *more = evd.count_rest();  // the CQ is armed for the CNO: an event not counted here notifies
    evd.leaving_.fetch_sub(1, std::memory_order_release);
    visit_.end();
  }

 private:
  Evd* evd_ = nullptr;  // not null while the thread is the waiter
  WaitVisit visit_;
};

namespace calls {

DAT_RETURN evd_wait_slow_path(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                              DAT_EVENT* event, DAT_COUNT* more) {
  Evd::Wait wait;
  return wait_cancellably(
      timeout,
      [&](const Deadline& deadline) -> Status {
        const auto evd = require<Evd>(handle);
        if (evd == nullptr) return evd.refusal();
        if (threshold < 1 || threshold > evd->qlen())
          UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "threshold %d, queue length %d",
                       threshold, evd->qlen());
        if (event == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "null event");
        if (more == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5, "null count");
        return Status(wait.sleep(*evd, deadline, threshold, event));
      },
      [&](DAT_RETURN code) { wait.end(code, more); });
}

}  // namespace calls
}  // namespace udapl::dapl
