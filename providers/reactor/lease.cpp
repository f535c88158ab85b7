// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/lease.h"

#include <algorithm>

#include <sys/timerfd.h>
#include <unistd.h>

namespace udapl {

namespace {

// The least that the service thread sleeps: somebody drives just now without having a lease.
constexpr auto kAnInstant = std::chrono::microseconds(20);

timespec to_timespec(Clock::duration time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  timespec result{};
  result.tv_sec = seconds.count();
  result.tv_nsec = std::chrono::nanoseconds(time - seconds).count();
  return result;
}

}  // namespace

// steady_clock is CLOCK_MONOTONIC, as the timer's.
void Lease::arm(Clock::rep when) noexcept {
  itimerspec setting{};
  setting.it_value = to_timespec(Clock::duration(when));
  if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr) != 0)
    lost_.store(true, std::memory_order_seq_cst);
  armed_.store(when, std::memory_order_relaxed);
}

void Lease::renew(Clock::time_point now, Clock::duration length) noexcept {
  const Clock::rep end = (now + length).time_since_epoch().count();
  end_.store(end, std::memory_order_relaxed);
  if (!parked()) return;
  const Clock::rep armed = armed_.load(std::memory_order_relaxed);
  if (armed > end || armed < end - length.count() / 2) arm(end);
}

void Lease::renew_after_wait(Clock::time_point now, const Deadline& timer) noexcept {
  const std::uint32_t waits = waits_.load(std::memory_order_relaxed) + 1;
  waits_.store(waits, std::memory_order_relaxed);
  Clock::duration length = (1 + waits / kWaitsToGrow) * Clock::duration(kAfterWait);
  length = std::min(length, Clock::duration(kAfterWaits));
  if (timer) length = std::max(std::min(length, *timer - now), Clock::duration(kAfterWait));
  renew(now, length);
}

Deadline Lease::suspend_at() const noexcept {
  if (!parked()) return std::nullopt;
  return Clock::time_point(Clock::duration(armed_.load(std::memory_order_relaxed))) - kMargin;
}

void Lease::suspend() noexcept {
  if (parked()) arm((Clock::now() + kLongestSleep).time_since_epoch().count());
}

void Lease::summon() noexcept {
  if (!parked_.exchange(false, std::memory_order_seq_cst)) return;
  itimerspec setting{};
  setting.it_value.tv_nsec = 1;
  ::timerfd_settime(timer_.get(), 0, &setting, nullptr);
  word_.signal();
}

Clock::rep Lease::begin_park(bool leader, const Deadline& timer) noexcept {
  const Clock::time_point now = Clock::now();
  const Clock::rep soon = (now + kAnInstant).time_since_epoch().count();
  const Clock::rep late = (now + kLongestSleep).time_since_epoch().count();
  Clock::rep until = end_.load(std::memory_order_relaxed);
  if (timer) until = std::min(until, timer->time_since_epoch().count());
  until = leader ? late : std::max(soon, until);
  arm(until);
  parked_.store(true, std::memory_order_seq_cst);
  return until;
}

// Not on a descriptor that may be somebody else's by now.
void Lease::sleep(std::uint32_t seen, Clock::rep until) noexcept {
  if (lost_.load(std::memory_order_seq_cst)) {
    word_.wait(seen, Clock::time_point(Clock::duration(until)));
    return;
  }
  std::uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &expirations, sizeof expirations);
}

void Lease::taken_over_for(bool nothing) noexcept {
  const Clock::rep now = after_poll_.load(std::memory_order_relaxed);
  const Clock::rep next = nothing ? std::min(2 * now, Clock::duration(kLongest).count())
                                  : Clock::duration(kShortest).count();
  if (next != now) after_poll_.store(next, std::memory_order_relaxed);
  if (!nothing) waits_.store(0, std::memory_order_relaxed);
}

}  // namespace udapl
