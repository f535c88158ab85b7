// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "results.h"

namespace conformance {

// Runs one test in a process of its own: this program with `arguments` and the name of the test. A
// provider that crashes, hangs or ends the process costs one test and not the run. Blocks until the
// test is over, at most for `limit_seconds` plus the time that killing takes. Any thread.
Result run_isolated(const std::string& path, std::vector<std::string> arguments, int limit_seconds);

// Runs all of them in this way, `jobs` at a time. Calls `done` in this thread, in the order of the
// paths; it returns whether to continue.
void run_all_isolated(const std::vector<std::string>& paths,
                      const std::vector<std::string>& arguments, int limit_seconds, int jobs,
                      const std::function<bool(Result)>& done);

// In that process: sends the result to the parent. Returns false if the parent does not read it.
bool report_to(int fd, const Results& results);

}  // namespace conformance
