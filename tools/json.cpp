// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "json.h"

#include <fmt/core.h>

namespace tools {

namespace {

bool is_printable(char c) { return c >= 0x20 && c < 0x7f; }

}  // namespace

Json& Json::text(std::string_view value) {
  element();
  out_ += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\')
      out_ += {'\\', c};
    else if (c == '\n')
      out_ += "\\n";
    else if (is_printable(c))
      out_ += c;
    else
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
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
