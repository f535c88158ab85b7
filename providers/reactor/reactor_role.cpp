// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: releasing the drive role, and waking the thread that sleeps.
#include "common/not_cancelled.h"
#include "providers/reactor/reactor.h"

namespace udapl {

void Reactor::release() noexcept {
  role_.release();
  if (has_queued()) [[unlikely]]
    run_queued();
  // A polling thread will make the next turn itself.
  if (next_turn_.load(std::memory_order_seq_cst) && !turn_policy_.habitual() &&
      !in_service_thread())
    announce_work();
  // Input of awake pollers does not wake a sleeping guard, and a timer that was started meanwhile
  // may be due before the guard wakes.
  if (pollers_awake() ||
      queued_.timer.load(std::memory_order_seq_cst) < guard_until_.load(std::memory_order_relaxed))
    wake_guard();
}

// Called after the role was released.
[[gnu::noinline]] void Reactor::run_queued() noexcept {
  for (int rounds = 1; has_queued(); ++rounds) {
    if (rounds > tuning::kReleaseRounds) return announce_work();
    if (!role_.claim()) return;
    {
      const NotCancelled scope;
      if (call_requested_.load(std::memory_order_relaxed)) ask_pollers();
      run_deferred();
    }
    role_.release();
  }
}

void Reactor::wake_guard() noexcept {
  if (role_.only_guarded()) wake_sleeper();
}

void Reactor::announce_work() noexcept {
  // A driving thread checks the queues before it sleeps or leaves.
  if (!wake_sleeper() && role_.free()) lease_.wake_service_thread();
}

// Wakes the sleeping thread if it would sleep past `when`.
void Reactor::announce_timer(Clock::time_point when) noexcept {
  if (!wake_sleeper() && lease_.ends_after(when)) lease_.wake_service_thread();
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
  if (unattended_.exchange(false, std::memory_order_seq_cst)) lease_.end();
}

}  // namespace udapl
