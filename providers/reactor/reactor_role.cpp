// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: the drive role, which one thread holds at a time, and waking the thread that sleeps.
//
// The role and the queues are the two sides of Dekker's handshake, hence the sequentially
// consistent accesses: a thread that queues something checks the role afterwards; a thread that
// sleeps or leaves changes the role first and checks the queues afterwards. At least one of them
// sees the other.
#include <cerrno>

#include <unistd.h>

#include "common/not_cancelled.h"
#include "providers/reactor/reactor.h"

namespace udapl {

bool Reactor::claim() noexcept {
  std::uint32_t role = role_.load(std::memory_order_relaxed);
  do {
    if ((role & kState) != kFree) return false;
  } while (!role_.compare_exchange_weak(role, role | kActive, std::memory_order_seq_cst));
  driver_.store(::pthread_self(), std::memory_order_relaxed);
  return true;
}

void Reactor::become(Role state) noexcept {
  std::uint32_t role = role_.load(std::memory_order_relaxed);
  while (!role_.compare_exchange_weak(role, (role & ~kState) | state, std::memory_order_seq_cst)) {
  }
}

void Reactor::release() noexcept {
  for (int rounds = 0;; ++rounds) {
    driver_.store(pthread_t{}, std::memory_order_relaxed);
    become(kFree);
    if (!has_queued()) break;
    if (rounds == kMostRounds) {
      announce_work();
      break;
    }
    if (!claim()) break;
    const NotCancelled scope;
    if (call_requested_.load(std::memory_order_relaxed)) ask_pollers();
    run_deferred();
  }
  // A polling thread will make the next turn itself.
  if (next_turn_.load(std::memory_order_seq_cst) &&
      turns_.load(std::memory_order_relaxed) < kHabit && !in_service_thread())
    announce_work();
  // Input of awake pollers does not wake a sleeping guard, and a timer that was started meanwhile
  // may be due before the guard wakes.
  if (pollers_awake() ||
      first_timer_.load(std::memory_order_seq_cst) < guard_until_.load(std::memory_order_relaxed))
    wake_guard();
}

void Reactor::wake_guard() noexcept {
  if ((role_.load(std::memory_order_seq_cst) & (kState | kGuarded)) == kGuarded) wake_sleeper();
}

bool Reactor::driven_here() const noexcept {
  return driver_.load(std::memory_order_relaxed) == ::pthread_self();
}

void Reactor::announce_work() noexcept {
  if (wake_sleeper()) return;
  // An active driver checks the queues before it sleeps or leaves.
  if ((role_.load(std::memory_order_seq_cst) & kState) == kFree) lease_.wake_service_thread();
}

// Wakes the sleeping thread if it would sleep past `when`.
void Reactor::announce_timer(Clock::time_point when) noexcept {
  if (!wake_sleeper() && lease_.ends_after(when)) lease_.wake_service_thread();
}

bool Reactor::has_work() const noexcept {
  return has_queued() || next_turn_.load(std::memory_order_seq_cst) || expired(next_timer());
}

void Reactor::wake() noexcept { wake_sleeper(); }

// Prefers the leader if a guard sleeps at the same time. Kicks once per sleep.
bool Reactor::wake_sleeper() noexcept {
  std::uint32_t role = role_.load(std::memory_order_seq_cst);
  std::uint32_t awake = 0;
  do {
    if ((role & kState) == kAsleep)
      awake = (role & ~kState) | kActive;
    else if ((role & kState) == kFree && (role & kGuarded) != 0)
      awake = role | kKicked;
    else
      return false;
    if (awake == role) return true;
  } while (!role_.compare_exchange_weak(role, awake, std::memory_order_seq_cst));
  const NotCancelled scope;
  const std::uint64_t one = 1;
  const auto kick_fails = [&] {
    return ::write(kick_.get(), &one, sizeof one) < 0 && errno != EAGAIN;
  };
  // Twice: a signal handler of the program's may have changed errno.
  if (!lost_.load(std::memory_order_acquire) && kick_fails() && kick_fails()) [[unlikely]]
    lose_descriptors(errno);
  if (lost_.load(std::memory_order_acquire)) [[unlikely]]
    lost_word_.signal();
  return true;
}

// The follower returns to its caller, which waits again and then finds the role free. The word is
// signalled under the lock, because a follower leaves the list before its word may be destroyed.
void Reactor::nominate_follower() noexcept {
  if (follower_count_.load(std::memory_order_seq_cst) == 0) return;
  const ScopedLock guard(lock_);
  if (!followers_.empty()) followers_.front().word->signal();
}

bool Reactor::application_drives() const noexcept {
  return leader_present_.load(std::memory_order_seq_cst) || lease_.valid(Clock::now());
}

}  // namespace udapl
