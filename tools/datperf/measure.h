// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Runs the cases of a plan: threads, warm-up, rounds.
#pragma once

#include "plan.h"
#include "runner.h"

#include <functional>

namespace datperf {

/** Measures one case. Calls `make` once for each thread. */
[[nodiscard]] Row measure(const Case& what, const Effort& effort, const std::string& column,
                          const std::function<std::unique_ptr<Runner>()>& make);

/** Called after each case, with one row for every column that supports the case. */
using Sink = std::function<void(const Case&, const std::vector<Row>&)>;

/** Measures all cases of the plan with its server. The columns are the plan's IAs, and sockets if
 *  requested. Throws the same exceptions as group.h. */
void measure_all(const Plan& plan, const Sink& sink);

[[nodiscard]] std::vector<std::string> columns_of(const Plan& plan);

}  // namespace datperf
