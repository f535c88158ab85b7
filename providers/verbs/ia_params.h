// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace udapl::verbs {

// dat.conf's seventh field: "NAME PORT", separated by blanks; what follows is ignored.
struct IaParams {
  std::string name;
  int port = 0;  // C syntax; 0 if it is missing
};

// Nullopt: no name, or a port that is no number from 0 to 255. Pure.
[[nodiscard]] std::optional<IaParams> parse_ia_params(std::string_view text);

}  // namespace udapl::verbs
