// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace datinfo {

struct PathOptions {
  std::vector<std::string> names;  // empty: all
  bool json = false;
  std::chrono::milliseconds limit{10000};
};

// Connects two child processes over each adapter of the software RNIC in the dat.conf in use, and
// prints which path the connection took, and why. Other adapters are only opened. Returns the exit
// status: 0 if this was possible for all named adapters or, without names, for at least one;
// else 1.
[[nodiscard]] int paths(const PathOptions& options);

}  // namespace datinfo
