// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// Decides whether polls look for the confirmation of what was sent. Looking slows the peer down,
// which writes to the same cache line for each message, and is superfluous if the peer answers: its
// answer confirms as well. So they look only if no answers came lately.
class ConfirmationHabit {
 public:
  // Called when a confirmation is awaited. Returns whether polls should look for it.
  [[nodiscard]] bool looks() noexcept {
    looks_ = left_ != 0;
    if (looks_) --left_;
    return looks_;
  }
  void came_with_answer() noexcept {
    if (!looks_) alone_ = 0;
  }
  // Called when it was found without an answer, if only in a look at everything, which is rare.
  void came_alone() noexcept {
    if (!looks_ && ++alone_ >= kHabit) left_ = kLooked;
  }

 private:
  static constexpr std::uint32_t kHabit = 2;
  static constexpr std::uint32_t kLooked = 1024;  // then answers are given another chance

  bool looks_ = false;
  std::uint32_t left_ = 0;
  std::uint32_t alone_ = 0;
};

}  // namespace udapl::soft
