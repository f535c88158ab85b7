// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "statistics.h"

#include <algorithm>
#include <cmath>

namespace datperf {

namespace {

// REQUIRES: sorted, not empty.
double percentile(const std::vector<double>& sorted, double fraction) {
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

double middle(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// The probability of `successes` in `trials` if each succeeds with probability 1/2.
double binomial(std::size_t trials, std::size_t successes) {
  const auto n = static_cast<double>(trials);
  const auto k = static_cast<double>(successes);
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                  n * std::log(2.0));
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return middle(values);
}

Distribution distribution_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), middle(values), percentile(values, 0.99), values.back()};
}

Interval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  // The true median is below values[k] or above values[n - 1 - k] if at most k values fell on one
  // side of it.
  const std::size_t n = values.size();
  double outside = 2 * binomial(n, 0);
  std::size_t k = 0;
  while (2 * (k + 1) < n && outside + 2 * binomial(n, k + 1) <= 0.05) {
    ++k;
    outside += 2 * binomial(n, k);
  }
  return {values[k], values[n - 1 - k], std::max(0.0, 1 - outside)};
}

}  // namespace datperf
