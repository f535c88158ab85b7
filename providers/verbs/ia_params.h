// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace udapl::verbs {

// dat.conf's seventh field: "NAME PORT [delayed_ack=on|off]", separated by blanks; what else follows
// is ignored.
struct IaParams {
  std::string name;
  int port = 0;  // C syntax; 0 if it is missing
  bool delayed_ack = false;
};

// Nullopt: no name, a port that is no number from 0 to 255, or delayed_ack neither on nor off. Pure.
[[nodiscard]] std::optional<IaParams> parse_ia_params(std::string_view text);

}  // namespace udapl::verbs
