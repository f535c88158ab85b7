// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// Decides whether polls look for the confirmation of what was sent. A look slows the peer down,
// because the peer writes to the same cache line for each message. It is superfluous if the peer
// sends a message in return, because that message confirms as well. So polls look only if no such
// answers have come lately.
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
  // Called when the confirmation was found without an answer. If polls do not look for it, this
  // happens only in the rare checks of all events.
  void came_alone() noexcept {
    if (!looks_ && ++alone_ >= kHabit) left_ = kLooked;
  }

 private:
  static constexpr std::uint32_t kHabit = 2;      // confirmations without an answer in a row
  static constexpr std::uint32_t kLooked = 1024;  // awaited confirmations until polls stop looking

  bool looks_ = false;
  std::uint32_t left_ = 0;
  std::uint32_t alone_ = 0;
};

}  // namespace udapl::soft
