// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace udapl::verbs {

// The seventh field of dat.conf: "NAME PORT [delayed_ack=on|off]", separated by blanks; anything
// else that follows is ignored.
struct IaParams {
  std::string name;
  int port = 0;  // C syntax; 0 if it is missing
  bool delayed_ack = false;
};

// Returns nullopt if there is no name, the port is not a number from 0 to 255, or delayed_ack is
// neither on nor off. Pure.
[[nodiscard]] std::optional<IaParams> parse_ia_params(std::string_view text);

}  // namespace udapl::verbs
