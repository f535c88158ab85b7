// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/lease.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "providers/reactor/coarse_clock.h"

namespace udapl {

namespace {

// The shortest sleep of the service thread, when the lease has ended already.
constexpr auto kShortestSleep = std::chrono::microseconds(20);

// follow() postpones the timer only if the service thread would wake too early by at least this.
constexpr auto kMuchLater = std::chrono::milliseconds(50);

// The time to which the timer is set so that the service thread wakes at once. A sleep of one
// nanosecond takes as long, but libfaketime may round it to 0, which disarms the timer.
constexpr long kAtOnceNs = 1000;

timespec to_timespec(Clock::duration time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  timespec result{};
  result.tv_sec = seconds.count();
  result.tv_nsec = std::chrono::nanoseconds(time - seconds).count();
  return result;
}

}  // namespace

// steady_clock is CLOCK_MONOTONIC, like the timer's clock.
void Lease::arm(Clock::rep when) noexcept {
  itimerspec setting{};
  setting.it_value = to_timespec(Clock::duration(when));
  if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr) != 0)
    lost_.store(true, std::memory_order_seq_cst);
  armed_.store(when, std::memory_order_relaxed);
}

bool Lease::renew(Clock::time_point now, Clock::duration length) noexcept {
  const Clock::rep wanted = (now + length).time_since_epoch().count();
  const Clock::rep end = std::max({wanted, extended_.load(std::memory_order_relaxed),
                                   takes_until_.load(std::memory_order_relaxed)});
  end_.store(end, std::memory_order_relaxed);
  if (!parked()) return false;
  // An extension alone does not push the timer: otherwise each large message would.
  const Clock::rep armed = armed_.load(std::memory_order_relaxed);
  if (armed <= end && armed >= wanted - length.count() / 2) return false;
  arm(end);
  return true;
}

Clock::time_point Lease::renew_after_wait(const Deadline& timer, bool briefly) noexcept {
  const std::uint32_t waits = waits_.load(std::memory_order_relaxed) + 1;
  waits_.store(waits, std::memory_order_relaxed);
  pushes_.store(0, std::memory_order_relaxed);
  Clock::duration length = (1 + waits / kWaitsToGrow) * Clock::duration(kAfterWait);
  length = std::min(length, Clock::duration(briefly ? kAfterWait : kAfterWaits));
  Clock::time_point now = coarse_now();
  if (length < kCoarse || (timer && *timer - now < kCoarse)) now = Clock::now();
  if (timer) length = std::max(std::min(length, *timer - now), Clock::duration(kAfterWait));
  renew(now, length);
  return now;
}

Deadline Lease::suspend_at() const noexcept {
  if (!parked()) return std::nullopt;
  return Clock::time_point(Clock::duration(armed_.load(std::memory_order_relaxed))) - kMargin;
}

void Lease::postpone(const Deadline& timer) noexcept {
  if (!parked()) return;
  const Clock::time_point late = Clock::now() + kLongestSleep;
  arm(std::min(timer.value_or(late), late).time_since_epoch().count());
}

// Has a fence, so that either a thread that starts an earlier timer meanwhile sees the new time of
// the lease's timer, or the caller sees that earlier timer.
void Lease::follow(const Deadline& timer) noexcept {
  if (!timer || !watching()) return;
  const Clock::time_point armed(Clock::duration(armed_.load(std::memory_order_relaxed)));
  if (*timer - armed < kMuchLater) return;
  const Clock::time_point when = std::min(*timer, coarse_now() + kLongestSleep);
  if (when - armed < kMuchLater) return;
  arm(when.time_since_epoch().count());
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Lease::extend(Clock::time_point now) noexcept {
  const Clock::duration length = spins(now) ? Clock::duration(kLongWorkOfSpinners) : kLongWork;
  const Clock::rep end = (now + length).time_since_epoch().count();
  long_.store(length >= kLong, std::memory_order_relaxed);
  extended_.store(end, std::memory_order_relaxed);
  if (end_.load(std::memory_order_relaxed) < end) end_.store(end, std::memory_order_relaxed);
}

bool Lease::watches_until(const Deadline& when) const noexcept {
  return watching() &&
         (!when || when->time_since_epoch().count() >= armed_.load(std::memory_order_relaxed));
}

void Lease::wake_service_thread() noexcept {
  if (parked_.exchange(Parked::kNo, std::memory_order_seq_cst) == Parked::kNo) return;
  itimerspec setting{};
  setting.it_value.tv_nsec = kAtOnceNs;
  ::timerfd_settime(timer_.get(), 0, &setting, nullptr);
  word_.signal();
}

Clock::rep Lease::begin_park(Instead instead, const Deadline& timer, bool watches) noexcept {
  const Clock::time_point now = Clock::now();
  const Clock::rep soon = (now + kShortestSleep).time_since_epoch().count();
  const Clock::rep late = (now + kLongestSleep).time_since_epoch().count();
  const bool leased = instead == Instead::kLease;
  Clock::rep until = leased ? end_.load(std::memory_order_relaxed) : late;
  // A leader without `others` watches timers itself; with them it was woken for one that is due.
  if (timer && (instead != Instead::kLeader || (watches && *timer > now)))
    until = std::min(until, timer->time_since_epoch().count());
  until = std::max(soon, until);
  arm(until);
  parked_.store(watches ? Parked::kWatching : Parked::kYes, std::memory_order_seq_cst);
  // A thread that ends the lease writes end_ first, and then checks whether this thread is parked.
  if (leased && end_.load(std::memory_order_seq_cst) == 0) arm(until = soon);
  return until;
}

// Does not sleep on the timer descriptor if that is lost, since its number may have been reused. An
// expiry that was not read is cleared when the timer is armed again.
bool Lease::sleep(std::uint32_t seen, Clock::rep until, int others) noexcept {
  if (lost_.load(std::memory_order_seq_cst)) {
    word_.wait(seen, Clock::time_point(Clock::duration(until)));
    return false;
  }
  if (others >= 0) {
    pollfd both[] = {{timer_.get(), POLLIN, 0}, {others, POLLIN, 0}};
    // poll fails if the program has lowered its limit of descriptors.
    return ::poll(both, 2, -1) < 0 || both[1].revents != 0;
  }
  std::uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &expirations, sizeof expirations);
  return false;
}

void Lease::after_takeover(bool nothing, bool was_long, Clock::time_point now) noexcept {
  const Clock::rep length = after_poll_.load(std::memory_order_relaxed);
  const Clock::rep next = nothing ? std::min(2 * length, Clock::duration(kLongest).count())
                                  : Clock::duration(kShortest).count();
  if (next != length) after_poll_.store(next, std::memory_order_relaxed);
  if (!nothing) {
    waits_.store(0, std::memory_order_relaxed);
    if (was_long) note_pause(now);
  }
  pushes_.store(0, std::memory_order_relaxed);
}

void Lease::note_pause(Clock::time_point now) noexcept {
  if (spins(now)) return;  // leases are shorter then: pauses are expected of any consumer
  pauses_ = now - std::exchange(paused_, now) < kBetweenPauses ? pauses_ + 1 : 1;
  if (pauses_ < kPausesOfSpinners) return;
  pauses_ = 0;
  spins_until_.store((now + kSpinnerFor).time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace udapl
