// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "common/annotations.h"

namespace udapl {

// A lock for sections that may block. Works like std::mutex, on a futex, but an uncontended lock or
// unlock takes four instructions instead of sixty in libc: control calls acquire several locks
// (docs/adr/0032). Not recursive; not fair. Trivially destructible, and constant-initialised if
// static.
//
// Under gcc's ThreadSanitizer it is a std::mutex. The tool would understand the atomic word as
// well, but checks the order of locks only for functions of pthread_mutex.
class UDAPL_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

#if defined(__SANITIZE_THREAD__)
  void lock() UDAPL_ACQUIRE() { mutex_.lock(); }
  bool try_lock() UDAPL_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() UDAPL_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
#else
  void lock() noexcept UDAPL_ACQUIRE() {
    std::uint32_t free = kFree;
    if (!word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                       std::memory_order_relaxed)) [[unlikely]]
      lock_slow_path();
  }
  bool try_lock() noexcept UDAPL_TRY_ACQUIRE(true) {
    std::uint32_t free = kFree;
    return word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  void unlock() noexcept UDAPL_RELEASE() {
    if (word_.exchange(kFree, std::memory_order_release) == kWanted) [[unlikely]]
      wake_one();
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kWanted = 2;  // held, and other threads may sleep

  [[gnu::cold, gnu::noinline]] void lock_slow_path() noexcept;
  // The mutex may have been destroyed with its owner: only its address is used.
  [[gnu::cold, gnu::noinline]] void wake_one() noexcept;

  std::atomic<std::uint32_t> word_{kFree};
#endif
};

// Holds `Lock` (Mutex or SpinLock) for a scope.
template <class Lock>
class UDAPL_SCOPED_CAPABILITY ScopedLock {
 public:
  explicit ScopedLock(Lock& lock) UDAPL_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~ScopedLock() UDAPL_RELEASE() { lock_.unlock(); }
  ScopedLock(const ScopedLock&) = delete;
  ScopedLock& operator=(const ScopedLock&) = delete;

 private:
  Lock& lock_;
};

}  // namespace udapl
