// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/wait_word.h"

#include <cerrno>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/exiting_sleep.h"

namespace udapl {

namespace {

// The system call that takes a `timespec` as the C library has it: on 32-bit processors its seconds
// may have 64 bits.
#if defined(SYS_futex_time64)
constexpr long kFutex = sizeof(timespec::tv_sec) > sizeof(long) ? SYS_futex_time64 : SYS_futex;
#else
constexpr long kFutex = SYS_futex;
#endif

}  // namespace

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

Deadline deadline_after(std::uint32_t timeout_us) noexcept {
  if (timeout_us == UINT32_MAX) return std::nullopt;
  return Clock::now() + std::chrono::microseconds(timeout_us);
}

WaitWord::Wakeup WaitWord::change() noexcept {
  // seq_cst on both sides: either the sleeper sees the new word, or this thread sees the sleeper.
  word_.fetch_add(1, std::memory_order_seq_cst);
  const bool sleepers = sleepers_.load(std::memory_order_seq_cst) != 0;
  if (Waker* const waker = waker_.load(std::memory_order_seq_cst)) waker->wake();
  return Wakeup(sleepers ? &word_ : nullptr);
}

void WaitWord::Wakeup::wake() const noexcept {
  ::syscall(kFutex, address_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

WaitResult WaitWord::wait(std::uint32_t seen, const Deadline& deadline) noexcept {
  timespec until{};
  if (deadline) {
    const auto since_epoch = deadline->time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
    until.tv_sec = seconds.count();
    until.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, which is what steady_clock is on
  // Linux.
  const long result = sleep_in([&] {
    return raw_system_call(kFutex, &word_, FUTEX_WAIT_BITSET_PRIVATE, seen,
                           deadline ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  });
  const int error = result == 0 ? 0 : errno;
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  if (error == ETIMEDOUT) return WaitResult::kTimedOut;
  if (error == EINTR) return WaitResult::kInterrupted;
  return WaitResult::kChanged;
}

}  // namespace udapl
