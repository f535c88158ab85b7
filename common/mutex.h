// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <mutex>

#include "common/annotations.h"

namespace udapl {

// std::mutex with the names that Clang's analysis needs.
class UDAPL_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() UDAPL_ACQUIRE() { mutex_.lock(); }
  bool try_lock() UDAPL_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() UDAPL_RELEASE() { mutex_.unlock(); }
  std::mutex& native() noexcept { return mutex_; }  // for std::condition_variable only

 private:
  std::mutex mutex_;
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
