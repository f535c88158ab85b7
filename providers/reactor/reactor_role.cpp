// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: releasing the drive role, and waking the thread that sleeps.
#include "common/not_cancelled.h"
#include "providers/reactor/reactor.h"

namespace udapl {

void Reactor::release() noexcept {
  bool direct = direct_.fd >= 0;
  role_.release();
  if (has_queued()) [[unlikely]]
    direct = run_queued(direct);
  // The work of start_next_turn() needs a thread; if the application polls, its next turn does it.
  if (next_turn_.load(std::memory_order_seq_cst) && !turn_policy_.habitual() &&
      !in_service_thread())
    announce_work();
  // A sleeping guard would miss input of awake pollers and of the descriptor on which leaders
  // sleep, and a timer that was started meanwhile may be due before the guard wakes.
  if (direct || pollers_awake() ||
      queued_.timer.load(std::memory_order_seq_cst) < guard_until_.load(std::memory_order_relaxed))
    wake_guard();
}

// Called after the role was released. `direct`, and the result: whether leaders slept on one
// descriptor when this thread last held the role.
[[gnu::noinline]] bool Reactor::run_queued(bool direct) noexcept {
  for (int rounds = 1; has_queued(); ++rounds) {
    if (rounds > tuning::kReleaseRounds) {
      announce_work();
      break;
    }
    if (!role_.claim()) break;
    {
      const NotCancelled scope;
      if (call_requested_.load(std::memory_order_relaxed)) ask_pollers();
      run_deferred();
    }
    direct = direct_.fd >= 0;
    role_.release();
  }
  return direct;
}

void Reactor::wake_guard() noexcept {
  if (role_.only_guarded()) wake_sleeper();
}

void Reactor::announce_work() noexcept {
  // If another thread drives, it checks the queues before it sleeps or releases the role.
  if (!wake_sleeper() && role_.free()) lease_.wake_service_thread();
}

// Wakes a thread that would otherwise sleep past `when`. A leader that starts a timer in one of its
// own calls needs no wake-up: it sees the timer before it sleeps, and the lease that it renews at
// the end of its wait does not outlast the timer.
void Reactor::announce_timer(Clock::time_point when) noexcept {
  if (leads_here() || wake_sleeper()) return;
  if (lease_.ends_after(when)) lease_.wake_service_thread();
}

bool Reactor::has_work() const noexcept {
  return has_queued() || next_turn_.load(std::memory_order_seq_cst) ||
         expired(queued_.first_timer());
}

void Reactor::wake() noexcept { wake_sleeper(); }

bool Reactor::wake_sleeper() noexcept {
  const DriveRole::Wake wake = role_.wake();
  if (wake == DriveRole::Wake::kKick) events_.kick();
  return wake != DriveRole::Wake::kNoneAsleep;
}

bool Reactor::application_drives() const noexcept {
  return leader_present_.load(std::memory_order_seq_cst) ||
         unattended_.load(std::memory_order_seq_cst) || lease_.valid(Clock::now());
}

void Reactor::end_unattended() noexcept {
  if (!unattended_.exchange(false, std::memory_order_seq_cst)) return;
  lease_.end();
  wake_guard();  // if the service thread has not parked yet
}

}  // namespace udapl
