// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"

#include <ctime>

namespace udapl {

// The coarse clock ticks at least a hundred times a second, so it is late by at most half of this.
inline constexpr auto kCoarse = std::chrono::milliseconds(20);

// Never makes a system call; the exact clock does on a machine without a usable processor clock.
inline Clock::time_point coarse_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return Clock::time_point(std::chrono::seconds(now.tv_sec) +
                           std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace udapl
