// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Order statistics, which assume nothing about the distribution of the values. Thread-safe.
#pragma once

#include "plan.h"

#include <vector>

namespace datperf {

/** Zeroes if there are no values. The percentile p is the smallest value that at least the share p
 *  of all values do not exceed. */
[[nodiscard]] Distribution distribution_of(std::vector<double> values);

[[nodiscard]] double median_of(std::vector<double> values);

/** The narrowest interval between two of the values that contains the true median with a
 *  probability of at least 95%. Fewer than six values do not suffice for that: then the interval
 *  spans all of them, with the level that this gives. */
[[nodiscard]] Interval median_interval(std::vector<double> values);

}  // namespace datperf
