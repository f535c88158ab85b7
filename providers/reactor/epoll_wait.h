// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"

#include <ctime>

#include <sys/epoll.h>

namespace udapl {

// epoll_wait with a deadline (nullopt: none) of nanosecond resolution where the kernel has
// epoll_pwait2 (Linux 5.11), otherwise rounded up to a millisecond: never early. Returns what
// epoll_wait returns.
int wait_for_events(int epoll, epoll_event* events, int max, const Deadline& until) noexcept;

// The time that is left, for ppoll; 0 if there is none.
timespec time_until(Clock::time_point when) noexcept;

// Whether poll accepts this many descriptors: a process may have lowered its limit below the number
// of its open descriptors.
bool poll_allowed(unsigned descriptors) noexcept;

}  // namespace udapl
