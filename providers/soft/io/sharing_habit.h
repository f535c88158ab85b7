// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <chrono>

namespace udapl::soft {

// When to share a large RDMA Write between both sides (docs/adr/0076). Not in a series of Writes:
// those that follow would have to wait for the peer. Nor if the peer, although awake, did not do
// its part in time: then the next Writes are not shared, more of them if that happens again.
class SharingHabit {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool tries() noexcept {
    if (Clock::now() - last_ < kSeries) return false;
    if (pause_ == 0) return true;
    --pause_;
    return false;
  }
  // A large Write was posted, shared or not.
  void posted() noexcept { last_ = Clock::now(); }
  void ended(bool in_time) noexcept {
    posted();
    if (in_time) {
      next_pause_ = std::max(kMinPause, next_pause_ - next_pause_ / kForgets);
      return;
    }
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kMaxPause);
  }

 private:
  static constexpr auto kSeries = std::chrono::microseconds(5);
  static constexpr int kMinPause = 16;  // Writes
  static constexpr int kMaxPause = 4096;
  static constexpr int kForgets = 8;  // Writes in time for half of a failure to be forgotten

  Clock::time_point last_{};
  int pause_ = 0;
  int next_pause_ = kMinPause;
};

}  // namespace udapl::soft
