// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string_view>
#include <vector>

namespace udapl {

// The words of a field of dat.conf, separated by blanks. They refer to the memory of `text`.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view text);

}  // namespace udapl
