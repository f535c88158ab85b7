// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <CLI/CLI.hpp>

#include <cmath>
#include <string>

namespace tools {

/** A number from `low` to `high`. CLI::Range(double, double) also accepts NaN. */
inline CLI::Validator real_range(double low, double high) {
  const CLI::Range range(low, high);
  const auto check = [range](std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && std::isnan(value))
      return "Value " + text + " is not a number";
    return range(text);
  };
  return {check, range.get_description()};
}

}  // namespace tools
