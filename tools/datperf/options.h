// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "plan.h"

#include <optional>
#include <string>

namespace datperf {

enum class Command : std::uint8_t { kServer, kClient, kBoth };

struct Options {
  Command command = Command::kBoth;
  Plan plan;
  std::uint32_t clients = 0;  // number of clients that a server serves
  // File names; "-" for standard output, empty for none.
  std::string json;
  std::string csv;
  std::string html;
};

/** Parses the command line. Returns nullopt if the program must exit, with `status`: the command
 *  line is wrong, or it was --help or --version. */
[[nodiscard]] std::optional<Options> parse(int argc, char** argv, int& status);

}  // namespace datperf
