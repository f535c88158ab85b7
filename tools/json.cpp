// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "json.h"

#include <fmt/core.h>

#include <algorithm>

namespace tools {

namespace {

bool is_printable(char c) { return c >= 0x20 && c < 0x7f; }

// The number of bytes of the character beyond ASCII with which the text begins; 0 if it begins with
// none in valid UTF-8.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and numbers beyond U+10FFFF.
  const unsigned lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  return length;
}

// Whether the character is one of U+0080 to U+009F, which terminals obey.
bool is_control(std::string_view character) {
  return character.size() == 2 && character[0] == '\xc2' &&
         static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

Json& Json::text(std::string_view value) {
  element();
  out_ += '"';
  while (!value.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(value), 1);
    const std::string_view character = value.substr(0, length);
    const char last = character.back();
    value.remove_prefix(length);
    if (last == '"' || last == '\\')
      out_ += {'\\', last};
    else if (last == '\n')
      out_ += "\\n";
    else if (is_printable(last) || (length > 1 && !is_control(character)))
      out_ += character;
    else  // also of two bytes: the last one is the number of the control character
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(last)));
  }
  out_ += '"';
  return *this;
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (!is_printable(c)) c = '?';
  return out;
}

}  // namespace tools
