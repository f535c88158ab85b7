// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <array>
#include <cstddef>

namespace udapl::dapl {

// For a message: the names of the fields in a mask, as in DAT_EP_PARAM and DAT_EP_ATTR; bits that
// mean nothing are shown as a number. If there are too many, the last ones are left out:
// "pz_handle, ...".
class EpFieldNames {
 public:
  explicit EpFieldNames(DAT_EP_PARAM_MASK mask) noexcept;
  [[nodiscard]] const char* c_str() const noexcept { return text_.data(); }

 private:
  [[nodiscard]] bool append(const char* name) noexcept;

  std::array<char, 128> text_{};
  std::size_t length_ = 0;
};

}  // namespace udapl::dapl
