// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// An errno value for a record or a cause, in words and by name: "Connection refused
// (ECONNREFUSED)". For use in one expression: ErrnoText(errno).c_str(). Never fails; preserves
// errno.
class ErrnoText {
 public:
  explicit ErrnoText(int error) noexcept;
  [[nodiscard]] const char* c_str() const noexcept { return text_; }

 private:
  char text_[112];
};

// The words alone, a static string; "" for an unknown value.
[[nodiscard]] const char* errno_words(int error) noexcept;

}  // namespace udapl
