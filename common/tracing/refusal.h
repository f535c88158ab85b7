// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/tracing/trace.h"

#include <array>

namespace udapl::trace {

// Reports why a set-up call was refused even if only errors are shown, because most programs then
// exit and show their users only a number. Lives on the stack while the call runs; the trace points
// in the call store the reason in it. Used by one thread. Nests.
class Refusal {
 public:
  // `call` is a static string.
  explicit Refusal(const char* call) noexcept : call_(call), outer_(this_thread().refusal) {
    this_thread().refusal = this;
    reason_[0] = '\0';
  }
  ~Refusal() { this_thread().refusal = outer_; }
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;

  // Called when the call is about to return `code`. Writes an error record, unless one was written
  // already or the failure is expected: programs try connection qualifiers to find a free one, and
  // mark_expected() may have been called.
  void report(DAT_RETURN code) const noexcept;

  // ---- for trace points; without a Refusal in this thread they do nothing -----------------------
  [[nodiscard]] static bool wants_reason() noexcept;
  [[nodiscard]] static bool has_reason() noexcept;    // whether the call has one
  static void set_reason(const char* text) noexcept;  // the last one counts
  static void mark_shown() noexcept;                  // an error record was written as text
  static void mark_expected() noexcept;               // the program expects that this may fail

 private:
  const char* const call_;
  Refusal* const outer_;
  bool shown_ = false;
  bool expected_ = false;
  std::array<char, 512> reason_;
};

}  // namespace udapl::trace
