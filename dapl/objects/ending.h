// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>

namespace udapl::dapl {

// Marks, for a scope, that some object is ending by itself and may still use others: after the
// consumer has seen its request, an RSP briefly uses its EVD and EP. A call that cannot free an
// object because it is in use checks again as long as any() is true.
class Ending {
 public:
  Ending() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  ~Ending() { count_.fetch_sub(1, std::memory_order_release); }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  [[nodiscard]] static bool any() noexcept { return count_.load(std::memory_order_acquire) != 0; }

 private:
  static inline std::atomic<int> count_{0};
};

}  // namespace udapl::dapl
