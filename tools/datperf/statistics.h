// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Order statistics: they assume nothing about how times are distributed. Thread-safe.
#pragma once

#include "plan.h"

#include <vector>

namespace datperf {

/** Of no values: zeroes. The percentile p is the smallest value that at least p of all do not
 *  exceed. */
[[nodiscard]] Distribution distribution_of(std::vector<double> values);

[[nodiscard]] double median_of(std::vector<double> values);

/** The narrowest interval between two of the values that has the median of what they were drawn
 *  from with a probability of 95% or more; of less than six values, which cannot tell that, all of
 *  them, and their level. */
[[nodiscard]] Interval median_interval(std::vector<double> values);

}  // namespace datperf
