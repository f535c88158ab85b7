// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "results.h"

namespace conformance {

// Runs one test in a process of its own: this program again with `arguments`, and which test. A
// provider that crashes, hangs or ends the process costs one test and not the run. Blocks until the
// test is over, at most `limit_seconds` and what killing takes. Any thread.
Result run_isolated(const std::string& path, std::vector<std::string> arguments, int limit_seconds);

// Runs all of them so, `jobs` at a time. `done` is called in this thread, in the order of the
// paths, and says whether to go on.
void run_all_isolated(const std::vector<std::string>& paths,
                      const std::vector<std::string>& arguments, int limit_seconds, int jobs,
                      const std::function<bool(Result)>& done);

// In that process: hands the result over. False if nobody takes it.
bool report_to(int fd, const Results& results);

}  // namespace conformance
