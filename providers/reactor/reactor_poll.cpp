// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: what a consumer's polls do, and when they yield the processor.
#include <sched.h>
#include <sys/resource.h>

#include "providers/reactor/reactor.h"

namespace udapl {

bool Reactor::poll_turn(std::uint32_t polls) noexcept {
  if (polls != polled_among_takes_.load(std::memory_order_relaxed)) lease_.end_takes();
  bool found = false;
  bool turned = false;
  if (some_when_polled_.load(std::memory_order_relaxed)) [[unlikely]]
    wake_for_poll();
  const Glance glance = glance_at_pollers(found);
  if (glance == Glance::kServed) {
    turned = true;
  } else if (glance == Glance::kTurnDue) {
    if (claim()) {
      blocked_polls_.store(0, std::memory_order_relaxed);
      found = lone_turn();
      turned = true;
    } else if (driven_here()) {
      return false;
    } else {
      ask_for_role();
    }
  }
  if (found) {
    polls_.store(0, std::memory_order_relaxed);
    turn_at_.store(0, std::memory_order_relaxed);
    yield_at_.store(contended_.load(std::memory_order_relaxed) ? kPatientPolls : kUncontendedStride,
                    std::memory_order_relaxed);
    return true;
  }
  const bool eager = glance == Glance::kQuiet || polls < kEagerPolls;
  turn_at_.store(eager ? polls + 1 : (polls / kStride + 1) * kStride, std::memory_order_relaxed);
  // Not if it is too far ahead: see poll().
  if (yield_at_.load(std::memory_order_relaxed) - polls - 1 < kUncontendedStride) return turned;
  yield_at_.store(polls + yield(), std::memory_order_relaxed);
  return true;  // other threads have run, and may have found something
}

void Reactor::found_many() noexcept {
  const Clock::time_point now = Clock::now();
  const Clock::rep before =
      found_many_at_.exchange(now.time_since_epoch().count(), std::memory_order_relaxed);
  if (now - Clock::time_point(Clock::duration(before)) < Lease::kAfterTakes)
    lease_.extend_for_takes(now);
  polled_among_takes_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Makes a turn that counts as habitual: it renews the lease, and the guard parks.
void Reactor::start_polling() noexcept {
  if (!claim()) return;
  turns_.store(kHabit - 1, std::memory_order_relaxed);
  lone_turn();
}

// If one thread waits and another polls, the thread that is awake should drive: the leader makes
// way, and comes back when the polls end.
void Reactor::ask_for_role() noexcept {
  if ((role_.load(std::memory_order_relaxed) & kState) != kAsleep) return;
  const std::uint32_t polls = blocked_polls_.load(std::memory_order_relaxed) + 1;
  blocked_polls_.store(polls < kMaxBlockedPolls ? polls : 0, std::memory_order_relaxed);
  if (polls < kMaxBlockedPolls) return;
  polls_drive_.store(true, std::memory_order_seq_cst);
  wake_sleeper();
}

// Returns whether other threads ran since the last call. In a virtual machine, a yield may take
// long even if none did.
bool Reactor::others_ran() noexcept {
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) != 0) return true;
  const long switches = usage.ru_nvcsw + usage.ru_nivcsw;
  return switches != switches_.exchange(switches, std::memory_order_relaxed);
}

// Yields the processor and returns after how many polls the next yield is due: later if no other
// thread was ready to run.
std::uint32_t Reactor::yield() noexcept {
  const Clock::time_point before = Clock::now();
  ::sched_yield();
  const bool contended = Clock::now() - before > kContendedYield && others_ran();
  contended_.store(contended, std::memory_order_relaxed);
  return contended ? kContendedStride : kUncontendedStride;
}

}  // namespace udapl
