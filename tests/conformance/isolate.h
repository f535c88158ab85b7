// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "results.h"

namespace conformance {

// Runs one test in a process of its own: this program again with `arguments`, which name it and
// --result-fd. A provider that crashes, hangs or ends the process costs one test and not the run.
// Blocks until the test is over, at most `limit_seconds` and what killing takes.
Result run_isolated(const std::string& path, std::vector<std::string> arguments, int limit_seconds);

// In that process: hands the result over. False if nobody takes it.
bool report_to(int fd, const Results& results);

}  // namespace conformance
