// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Runs the cases of a plan: threads, warm-up, rounds.
#pragma once

#include "plan.h"
#include "runner.h"

#include <functional>

namespace datperf {

/** Carries out one case with `make`, once for each thread. */
[[nodiscard]] Row measure(const Case& what, const Effort& effort, const std::string& column,
                          const std::function<std::unique_ptr<Runner>()>& make);

/** Of one case, a row of each column that has it, as soon as they are there. */
using Sink = std::function<void(const Case&, const std::vector<Row>&)>;

/** All cases with the server that the plan names: columns are its IAs, and the sockets. Throws
 *  what group.h does. */
void measure_all(const Plan& plan, const Sink& sink);

[[nodiscard]] std::vector<std::string> columns_of(const Plan& plan);

}  // namespace datperf
