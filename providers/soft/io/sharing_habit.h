// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace udapl::soft {

// When the peer, although awake, did not do its part in time, it is left alone for a number of
// requests, and for more of them if that happens again.
class PauseAfterDelay {
 public:
  // Called for each request that the peer could take part in.
  [[nodiscard]] bool over() noexcept {
    if (pause_ == 0) return true;
    --pause_;
    return false;
  }
  void ended(bool in_time) noexcept {
    if (in_time) {
      next_pause_ = std::max(kMinPause, next_pause_ - next_pause_ / kForgets);
      return;
    }
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kMaxPause);
  }

 private:
  static constexpr int kMinPause = 16;  // requests
  static constexpr int kMaxPause = 4096;
  static constexpr int kForgets = 8;  // requests in time for half of a failure to be forgotten

  int pause_ = 0;
  int next_pause_ = kMinPause;
};

// When to share a large RDMA Write between both sides (docs/adr/0076). Not in a series of Writes:
// those that follow would have to wait for the peer. Nor if the peer did not do its part in time.
class SharingHabit {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool tries() noexcept { return Clock::now() - last_ >= kSeries && pause_.over(); }
  // A large Write was posted, shared or not.
  void posted() noexcept { last_ = Clock::now(); }
  void ended(bool in_time) noexcept {
    posted();
    pause_.ended(in_time);
  }

 private:
  static constexpr auto kSeries = std::chrono::microseconds(5);

  Clock::time_point last_{};
  PauseAfterDelay pause_;
};

// Whether the RDMA Writes and Reads of a series are sent as messages (docs/adr/0102): as long as
// the peer handles them promptly. Only now and then one is timed.
class SeriesHabit {
 public:
  using Clock = std::chrono::steady_clock;

  // `sent`: the position at which the message would begin; `others`: the number of requests that
  // the peer may have to handle before; `handled`: returns up to where it has handled our messages,
  // which takes a while.
  template <class Handled>
  [[nodiscard]] bool tries(std::uint64_t sent, std::uint64_t others,
                           const Handled& handled) noexcept {
    if (!pause_.over()) return false;
    if (timed_ == kNone) {
      timed_ = sent;
      until_ = Clock::now() + kPrompt + kPromptEach * std::min(others, kMostOthers);
      return true;
    }
    if (++calls_ % kCallsPerLook != 0) return true;
    const bool in_time = Clock::now() <= until_;
    if (in_time && handled() <= timed_) return true;
    timed_ = kNone;
    pause_.ended(in_time);
    return in_time;
  }
  // The series has ended.
  void ended() noexcept { timed_ = kNone; }

 private:
  static constexpr auto kPrompt = std::chrono::microseconds(50);
  static constexpr auto kPromptEach = std::chrono::microseconds(3);
  static constexpr std::uint64_t kMostOthers = 256;
  static constexpr std::uint32_t kCallsPerLook = 8;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  std::uint64_t timed_ = kNone;  // the beginning of the message that is timed
  Clock::time_point until_{};
  std::uint32_t calls_ = 0;
  PauseAfterDelay pause_;
};

}  // namespace udapl::soft
