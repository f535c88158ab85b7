// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace udapl::dat {

// Small text helpers for messages. No state.

// `text` in double quotes, safe for a terminal: characters other than printable ASCII become '?',
// and whatever is beyond `limit` becomes "...".
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t limit = 64);

// Up to three of `names`, best first, that a user who typed `wanted` may have meant.
[[nodiscard]] std::vector<std::string> near_names(std::string_view wanted,
                                                  const std::vector<std::string>& names);

}  // namespace udapl::dat
