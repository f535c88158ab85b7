// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>

#include "common/annotations.h"
#include "common/backoff.h"

namespace udapl {

// A lock for sections of some tens of instructions that never block or call out. A thread that
// finds it held waits as Backoff does, so a holder that was preempted can finish. Not recursive.
class UDAPL_CAPABILITY("spin lock") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept UDAPL_ACQUIRE() {
    // acquire: pairs with the release in unlock().
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_contended();
  }
  bool try_lock() noexcept UDAPL_TRY_ACQUIRE(true) {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept UDAPL_RELEASE() { held_.store(false, std::memory_order_release); }

 private:
  [[gnu::cold, gnu::noinline]] void lock_contended() noexcept {
    Backoff backoff;
    do {
      while (held_.load(std::memory_order_relaxed)) backoff.wait();
    } while (held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> held_{false};
};

}  // namespace udapl
