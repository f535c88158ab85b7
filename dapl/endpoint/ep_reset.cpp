// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_ep_reset: discards the rest of a connection, so that the EP can connect again.
#include "common/wait_word.h"
#include "dapl/endpoint/ep.h"
#include "dapl/objects/await_posts.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/trace_points.h"

#include <algorithm>
#include <chrono>

namespace udapl::dapl {
namespace {

// How long dat_ep_reset waits for other threads and the device; it polls at intervals that double.
constexpr auto kLimit = std::chrono::milliseconds(200);
constexpr auto kFirstPause = std::chrono::microseconds(20);
constexpr auto kLongestPause = std::chrono::milliseconds(2);

// Sleeps without driving the transport, because the program that called dat_ep_reset may hold locks
// that its upcalls need.
class Pauses {
 public:
  [[nodiscard]] bool over() const noexcept { return Clock::now() >= limit_; }
  void sleep() noexcept {
    never_signalled_.wait(never_signalled_.value(), Clock::now() + next_);
    next_ = std::min<Clock::duration>(2 * next_, kLongestPause);
  }

 private:
  WaitWord never_signalled_;
  const Clock::time_point limit_ = Clock::now() + kLimit;
  Clock::duration next_ = kFirstPause;
};

}  // namespace

bool Ep::has_failed() const noexcept {
  return posting_state() == DAT_EP_STATE_CONNECTED && qp_ != nullptr && qp_->failed();
}

bool Ep::failure_unreported() noexcept {
  const ScopedLock lock(mutex_);
  return has_failed();
}

// A program that has dequeued a failed completion may reset the EP at once, before another thread
// has reported the end of the connection.
void Ep::await_failure() noexcept {
  for (Pauses pauses; failure_unreported() && !pauses.over();) pauses.sleep();
}

// Turns completions into events. Returns true if some work is still to be flushed and there is room
// for its event.
bool Ep::reap_for_reset() noexcept {
  const ScopedLock lock(mutex_);
  if (discard_ != nullptr) discard_->drain();
  const bool receives_missing =
      config_.recv_evd != nullptr && config_.recv_evd->reap() && receives.cookies.awaits_event();
  const bool requests_missing = config_.request_evd != nullptr && config_.request_evd->reap() &&
                                requests.cookies.awaits_event();
  return receives_missing || requests_missing;
}

// A device flushes asynchronously: it may still do so after the event that ends the connection.
void Ep::await_flush(const transport::Qp& qp) noexcept {
  for (Pauses pauses;; pauses.sleep()) {
    const bool flushing = qp.flushing();
    if (!reap_for_reset() || !flushing) return;
    if (pauses.over()) {
      UDAPL_TRACE(kNormal, "ep %p: %u receives and %u requests were not flushed in %d ms: lost",
                  static_cast<void*>(this), receives.cookies.outstanding(),
                  requests.cookies.outstanding(), static_cast<int>(kLimit.count()));
      return;
    }
  }
}

Status Ep::reset() {
  await_failure();
  transport::Qp* qp = nullptr;
  {
    const ScopedLock lock(mutex_);
    const DAT_EP_STATE now = posting_state();
    const EpStep change = step(now, EpInput::kReset);
    if (now == kResetting || change.verdict == EpVerdict::kIllegal)
      return illegal(*this, EpInput::kReset);
    if (change.verdict == EpVerdict::kNothing) return Status();
    {
      const ScopedLock posts(requests.lock);
      store_state(kResetting);
    }
    receive_gate.store(kShut, std::memory_order_relaxed);
    qp = qp_.get();
  }
  await_posts(*this);  // a post that found the gate open uses receives.qp
  {
    const ScopedLock posts(receives.lock);
    receives.qp = nullptr;
  }
  await_flush(*qp);
  // Without the mutex, because the transport may wait for a running report, which acquires it.
  const Status status = qp->reset();

  const ScopedLock lock(mutex_);
  if (!status.ok()) {
    UDAPL_TRACE(kNormal, "ep %p: the transport failed to reset: 0x%x", static_cast<void*>(this),
                status.code());
    store_state(DAT_EP_STATE_DISCONNECTED);
    publish();
    return status;
  }
  forget_completions();
  {
    const ScopedLock posts(requests.lock);
    requests.cookies.clear();
  }
  {
    const ScopedLock posts(receives.lock);
    receives.cookies.clear();
  }
  keep_peer_data();
  forget_break();
  publish();
  arm_watermarks();
  set_state(DAT_EP_STATE_UNCONNECTED, EpInput::kReset);
  return Status();
}

}  // namespace udapl::dapl
