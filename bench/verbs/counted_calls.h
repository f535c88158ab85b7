// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <atomic>

// Counts the system calls of all libraries of a program: its source defines functions of the same
// names as those of libc.
namespace bench {

// kAwaited: reads of completion channels between the end of a sleep and the return to the program,
// for which the peer has to wait. kArming: ibv_req_notify_cq. kEmpty: ibv_poll_cq in vain.
enum Kind {
  kPoll,
  kRead,
  kWrite,
  kEpoll,
  kTimer,
  kClock,
  kFutex,
  kAwaited,
  kArming,
  kEmpty,
  kKinds
};
inline constexpr std::array<const char*, kKinds> kKindNames{
    "poll", "read", "write", "epoll", "timer", "clock", "futex", "awaited", "arming", "empty"};

extern std::array<std::atomic<long>, kKinds> call_counts;

// For kAwaited: called by the program when it is back.
void has_returned();

}  // namespace bench
