// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace udapl::soft {

// If the peer, although awake, did not do its part of a request in time, the next requests are made
// without it: a number of requests that doubles each time that this happens again.
class PauseAfterDelay {
 public:
  // Called for each request in which the peer could take part. Returns whether the pause is over.
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
  static constexpr int kForgets = 8;  // a request in time shortens the next pause by this part

  int pause_ = 0;
  int next_pause_ = kMinPause;
};

// Decides whether to share a large RDMA Write between both sides (docs/adr/0076). A Write in a
// series is not shared, because the next Writes would have to wait for the peer. Nor is a Write
// shared while the peer is left out because it was late (PauseAfterDelay).
class SharingHabit {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool tries() noexcept { return Clock::now() - last_ >= kSeries && pause_.over(); }
  // Called when a large Write was posted that is not shared.
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

// Decides whether the RDMA Writes and Reads of a series are sent as messages (docs/adr/0102): they
// are as long as the peer handles messages promptly. Times one message at a time.
class SeriesHabit {
 public:
  using Clock = std::chrono::steady_clock;

  // `sent`: the position at which the message would begin. `others`: the number of requests that
  // the peer may have to handle before it. `handled`: returns the position up to which the peer has
  // handled our messages; a call of it is slow.
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
