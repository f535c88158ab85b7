// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/tracing/trace.h"

#include <array>

namespace udapl::trace {

// Says why a set-up call was refused where only errors are shown: most programs end there, and tell
// their users no more than a number. Lives on the stack while the call runs; the points on the way
// leave the reason with it. Of one thread. Nests.
class Refusal {
 public:
  // `call` lives for ever.
  explicit Refusal(const char* call) noexcept : call_(call), outer_(this_thread().refusal) {
    this_thread().refusal = this;
    reason_[0] = '\0';
  }
  ~Refusal() { this_thread().refusal = outer_; }
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;

  // The call is about to return `code`. Writes an error record, unless people have read the reason
  // already or the code says all there is: programs look for a free connection qualifier by trying.
  void tell(DAT_RETURN code) const noexcept;

  // ---- by the points; without a Refusal in this thread they do nothing --------------------------
  [[nodiscard]] static bool wants_reason() noexcept;
  [[nodiscard]] static bool has_reason() noexcept;  // one was left since the call began
  static void because(const char* text) noexcept;   // the latest counts
  static void shown() noexcept;                     // an error record was written as text

 private:
  const char* const call_;
  Refusal* const outer_;
  bool shown_ = false;
  std::array<char, 512> reason_;
};

}  // namespace udapl::trace
