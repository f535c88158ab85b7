// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>

namespace udapl::trace {

// Limits the rate of records that a peer can cause at will: kBurst at once, then one per kInterval
// (a token bucket). One per site or reason. Thread-safe without locks.
class RateLimit {
 public:
  static constexpr auto kInterval = std::chrono::milliseconds(500);  // two a second
  static constexpr int kBurst = 10;

  constexpr RateLimit() noexcept = default;

  // Returns whether a record may be written now; `suppressed` becomes the number of those that were
  // suppressed since the last one.
  [[nodiscard]] bool admit(Clock::time_point now, unsigned& suppressed) noexcept {
    constexpr Clock::rep kStep = Clock::duration(kInterval).count();
    const Clock::rep time = now.time_since_epoch().count();
    Clock::rep used_up = used_up_.load(std::memory_order_relaxed);
    Clock::rep next = 0;
    do {
      next = std::max(used_up, time - kStep * kBurst) + kStep;
      if (next > time) {
        suppressed_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!used_up_.compare_exchange_weak(used_up, next, std::memory_order_relaxed));
    suppressed = suppressed_.exchange(0, std::memory_order_relaxed);
    return true;
  }

 private:
  std::atomic<Clock::rep> used_up_{
      std::numeric_limits<Clock::rep>::min()};  // the allowance has been spent up to this time
  std::atomic<unsigned> suppressed_{0};
};

}  // namespace udapl::trace
