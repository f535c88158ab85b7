// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <string>

namespace udapl {

// Makes text from outside (names in files, of peers and devices) safe for a terminal and a log:
// control characters, which a terminal might execute, become '?'; line ends and tabs become blanks.
// Valid UTF-8 is kept; other bytes above ASCII become '?'. The length does not change. No state.
void make_printable(char* text, std::size_t length) noexcept;

// Returns a copy treated by make_printable(), except that line ends are kept.
[[nodiscard]] std::string printable_lines(std::string text);

}  // namespace udapl
