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
  std::uint32_t clients = 0;  // that a server serves
  // Names of files, "-" for standard output, empty for none.
  std::string json;
  std::string csv;
  std::string html;
};

/** What the command line asks for; nothing if it is wrong or has been answered, then `status` is
 *  the exit status. */
[[nodiscard]] std::optional<Options> parse(int argc, char** argv, int& status);

}  // namespace datperf
