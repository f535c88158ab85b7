// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/errno_text.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace udapl {

ErrnoText::ErrnoText(int error) noexcept {
  const int saved_errno = errno;
  const char* const words = ::strerrordesc_np(error);
  const char* const name = ::strerrorname_np(error);
  if (words != nullptr && name != nullptr)
    std::snprintf(text_, sizeof text_, "%s (%s)", words, name);
  else
    std::snprintf(text_, sizeof text_, "error %d", error);
  errno = saved_errno;
}

const char* errno_words(int error) noexcept {
  const char* const words = ::strerrordesc_np(error);
  return words != nullptr ? words : "";
}

}  // namespace udapl
