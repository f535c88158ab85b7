// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace udapl {

// The right to drive a reactor, which one thread holds at a time. Also tells whether a thread
// sleeps that must be woken to see new work: the leader, which holds the role while it sleeps, or
// the guard, which does not. Owned by a Reactor. Thread-safe, without a lock.
//
// The role and the reactor's queues form Dekker's handshake, hence the sequentially consistent
// accesses: a thread that queues work checks the role afterwards; a thread that goes to sleep or
// releases the role changes the role first and checks the queues afterwards. At least one of the
// two sees the change of the other.
class DriveRole {
 public:
  // ---- the holder ------------------------------------------------------------------------------
  [[nodiscard]] bool claim() noexcept {
    std::uint32_t role = role_.load(std::memory_order_relaxed);
    do {
      if ((role & kState) != kFree) return false;
    } while (!role_.compare_exchange_weak(role, role | kActive, std::memory_order_seq_cst));
    holder_.store(::pthread_self(), std::memory_order_relaxed);
    return true;
  }
  // Called by the holder, as are the next two.
  void release() noexcept {
    disown();
    become(kFree);
  }
  // The leader is about to sleep in epoll.
  void fall_asleep() noexcept { become(kAsleep); }
  void resume() noexcept { become(kActive); }
  // Keeps the role taken for good, without a holder: no thread can claim it any more.
  void disown() noexcept { holder_.store(pthread_t{}, std::memory_order_relaxed); }

  [[nodiscard]] bool held_here() const noexcept {
    return holder_.load(std::memory_order_relaxed) == ::pthread_self();
  }
  [[nodiscard]] pthread_t holder() const noexcept {
    return holder_.load(std::memory_order_relaxed);
  }

  // ---- the guard -------------------------------------------------------------------------------
  // Releases the role; the calling thread, the guard, is about to sleep in epoll.
  void guard() noexcept {
    disown();
    role_.store(kGuarded, std::memory_order_seq_cst);
  }
  void end_guard() noexcept { role_.fetch_and(~(kGuarded | kKicked), std::memory_order_seq_cst); }
  // Called by the holder after it has read the eventfd that ends sleeps. A guard for which that was
  // written may not have woken: the next wake() kicks it again.
  void kick_was_taken() noexcept {
    if (guarded()) role_.fetch_and(~std::uint32_t{kKicked}, std::memory_order_seq_cst);
  }

  // ---- all threads -----------------------------------------------------------------------------
  [[nodiscard]] bool free(std::memory_order order = std::memory_order_seq_cst) const noexcept {
    return (role_.load(order) & kState) == kFree;
  }
  // Returns whether no thread drives and no guard sleeps.
  [[nodiscard]] bool unguarded() const noexcept {
    return role_.load(std::memory_order_seq_cst) == kFree;
  }
  // Returns whether the leader sleeps: a hint.
  [[nodiscard]] bool leader_sleeps() const noexcept {
    return (role_.load(std::memory_order_relaxed) & kState) == kAsleep;
  }
  // Returns whether a guard sleeps and no thread drives.
  [[nodiscard]] bool only_guarded() const noexcept {
    return (role_.load(std::memory_order_seq_cst) & (kState | kGuarded)) == kGuarded;
  }
  [[nodiscard]] bool guarded() const noexcept {
    return (role_.load(std::memory_order_seq_cst) & kGuarded) != 0;
  }
  // Marks the sleeping thread as woken: the leader, if leader and guard sleep at the same time.
  // Returns kKick once per sleep: the caller must then write to the eventfd that ends the sleep.
  enum class Wake : std::uint8_t { kNoneAsleep, kWoken, kKick };
  [[nodiscard]] Wake wake() noexcept {
    std::uint32_t role = role_.load(std::memory_order_seq_cst);
    std::uint32_t woken = 0;
    do {
      if ((role & kState) == kAsleep)
        woken = (role & ~kState) | kActive;
      else if ((role & kState) == kFree && (role & kGuarded) != 0)
        woken = role | kKicked;
      else
        return Wake::kNoneAsleep;
      if (woken == role) return Wake::kWoken;
    } while (!role_.compare_exchange_weak(role, woken, std::memory_order_seq_cst));
    return Wake::kKick;
  }
  // For a thread that is about to sleep: whether it has been woken.
  [[nodiscard]] bool woken() const noexcept {
    const std::uint32_t role = role_.load(std::memory_order_seq_cst);
    return (role & kState) == kActive || (role & kKicked) != 0;
  }
  // Orders this thread with the holder: the thread that changes the role later sees what the other
  // one has written before its change.
  void synchronize() noexcept { role_.fetch_or(0, std::memory_order_seq_cst); }

 private:
  // The first three are states of the holder, the others flags. kAsleep: the leader sleeps.
  // kGuarded: a guard sleeps. kKicked: the guard is being woken.
  enum State : std::uint32_t { kFree, kActive, kAsleep, kState = 3, kGuarded = 4, kKicked = 8 };

  void become(State state) noexcept {
    std::uint32_t role = role_.load(std::memory_order_relaxed);
    while (
        !role_.compare_exchange_weak(role, (role & ~kState) | state, std::memory_order_seq_cst)) {
    }
  }

  std::atomic<std::uint32_t> role_{kFree};
  std::atomic<pthread_t> holder_{};  // valid while the role is held
};

}  // namespace udapl
