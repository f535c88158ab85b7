// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/mutex.h"

#include <cerrno>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace udapl {

#if !defined(__SANITIZE_THREAD__)

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// A thread that has slept acquires the mutex in the state kWanted, since others may still sleep: at
// worst this costs the unlock a system call.
void Mutex::lock_slow_path() noexcept {
  const int saved_errno = errno;
  while (word_.exchange(kWanted, std::memory_order_acquire) != kFree)
    ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kWanted, nullptr, nullptr, 0);
  errno = saved_errno;
}

void Mutex::wake_one() noexcept {
  const int saved_errno = errno;
  ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = saved_errno;
}

#endif

}  // namespace udapl
