// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>

namespace udapl::soft {

// Counts the connections of an adapter that are accepted and whose peers' first messages have not
// been handled yet. Thread-safe.
class AcceptedConnections {
 public:
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void remove() noexcept { count_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] int count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> count_{0};
};

}  // namespace udapl::soft
