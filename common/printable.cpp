// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/printable.h"

#include <algorithm>

namespace udapl {

namespace {

using Byte = unsigned char;

// The length of the UTF-8 character at `text`; 0: there is none, or it is a control character
// (U+0080 to U+009F are those of 8-bit terminals).
std::size_t utf8_length(const char* text, std::size_t room) noexcept {
  const auto at = [text](std::size_t i) { return static_cast<Byte>(text[i]); };
  std::size_t length = 0;
  if (at(0) >= 0xc2 && at(0) <= 0xdf)
    length = 2;
  else if ((at(0) & 0xf0U) == 0xe0)
    length = 3;
  else if (at(0) >= 0xf0 && at(0) <= 0xf4)
    length = 4;
  if (length == 0 || length > room) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0U) != 0x80) return 0;
  const bool overlong = (at(0) == 0xe0 && at(1) < 0xa0) || (at(0) == 0xf0 && at(1) < 0x90);
  return overlong || (at(0) == 0xc2 && at(1) < 0xa0) ? 0 : length;
}

}  // namespace

void make_printable(char* text, std::size_t length) noexcept {
  for (std::size_t i = 0; i < length;) {
    const auto byte = static_cast<Byte>(text[i]);
    if (byte >= 0x80) {
      const std::size_t whole = utf8_length(text + i, length - i);
      if (whole == 0) text[i] = '?';
      i += std::max<std::size_t>(whole, 1);
      continue;
    }
    if (byte == '\n' || byte == '\t')
      text[i] = ' ';
    else if (byte < 0x20 || byte == 0x7f)
      text[i] = '?';
    ++i;
  }
}

std::string printable_lines(std::string text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    make_printable(text.data() + begin, end - begin);
    begin = end + 1;
  }
  return text;
}

}  // namespace udapl
