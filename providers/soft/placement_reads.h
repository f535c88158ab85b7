// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>

namespace udapl::soft {

// The Reads in flight whose answers confirm what the peer has placed (docs/adr/0084), oldest first.
// Not thread-safe.
class PlacementReads {
 public:
  // More than one, so that the next Read can be on its way while the peer still places what the
  // previous Read asks about.
  static constexpr std::uint32_t kMax = 4;

  struct Read {
    std::uint64_t request = 0;  // position of the request of the consumer that follows the Read
    std::uint64_t end = 0;      // the answer confirms the outgoing stream up to this position
  };

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool full() const noexcept { return size_ == kMax; }
  // The Read that was pushed last, even if it was answered since.
  [[nodiscard]] const Read& last() const noexcept { return last_; }
  // REQUIRES: !empty()
  [[nodiscard]] const Read& oldest() const noexcept { return reads_[first_ % kMax]; }
  void pop() noexcept {
    ++first_;
    --size_;
  }
  // REQUIRES: !full()
  void push(const Read& read) noexcept { reads_[(first_ + size_++) % kMax] = last_ = read; }
  void clear() noexcept { *this = {}; }

 private:
  std::array<Read, kMax> reads_{};
  Read last_;
  std::uint32_t first_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace udapl::soft
