// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/prefetch.h"
#include "providers/reactor/tuning.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace udapl {

// Memory that the next message will probably be written into, and that another processor has used
// last. Polls that find nothing fetch it for writing, a piece each, so that the message does not
// wait for it. Only a hint: any thread may set it, and two that poll at the same time may fetch the
// same.
class WriteAhead {
 public:
  void expect(const void* at, std::size_t bytes) noexcept {
    at_.store(static_cast<const char*>(at), std::memory_order_relaxed);
    left_.store(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t left() const noexcept {
    return left_.load(std::memory_order_relaxed);
  }
  // Fetches the next piece.
  void fetch() noexcept {
    const std::uint32_t left = this->left();
    if (left == 0) [[likely]]
      return;
    const char* const at = at_.load(std::memory_order_relaxed);
    const std::uint32_t piece = std::min(left, tuning::kFetchedAtOnce);
    at_.store(at + piece, std::memory_order_relaxed);
    left_.store(left - piece, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < piece; i += kLine) prefetch_for_write(at + i);
  }

 private:
  static constexpr std::uint32_t kLine = 64;

  std::atomic<const char*> at_{nullptr};
  std::atomic<std::uint32_t> left_{0};  // bytes
};

}  // namespace udapl
