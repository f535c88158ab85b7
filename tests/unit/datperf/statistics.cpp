// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE datperf
#include "tools/datperf/statistics.h"

#include <boost/test/unit_test.hpp>
#include <numeric>

using namespace datperf;

namespace {

// The numbers from 1 to count, in descending order.
std::vector<double> numbers(int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.rbegin(), values.rend(), 1.0);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(statistics)

BOOST_AUTO_TEST_CASE(no_values_yield_zero) {
  BOOST_TEST(median_of({}) == 0);
  BOOST_TEST(distribution_of({}).maximum == 0);
  BOOST_TEST(median_interval({}).level == 0);
}

BOOST_AUTO_TEST_CASE(one_value_is_every_statistic) {
  const Distribution one = distribution_of({7});
  BOOST_TEST(one.minimum == 7);
  BOOST_TEST(one.median == 7);
  BOOST_TEST(one.p99 == 7);
  BOOST_TEST(one.maximum == 7);
}

BOOST_AUTO_TEST_CASE(the_median_is_in_the_middle) {
  BOOST_TEST(median_of({3, 1, 2}) == 2);
  BOOST_TEST(median_of({4, 1, 3, 2}) == 2.5);
}

BOOST_AUTO_TEST_CASE(p99_is_not_exceeded_by_99_of_100) {
  BOOST_TEST(distribution_of(numbers(100)).p99 == 99);
  BOOST_TEST(distribution_of(numbers(1000)).p99 == 990);
  BOOST_TEST(distribution_of(numbers(99)).p99 == 99);
}

// According to the tables of the sign test, the interval is bounded by the extremes of 6 values, by
// the second value from either end of 10, and by the sixth of 20.
BOOST_AUTO_TEST_CASE(intervals_match_published_tables) {
  const auto check = [](int count, double low, double high, double level) {
    const Interval interval = median_interval(numbers(count));
    BOOST_TEST(interval.low == low);
    BOOST_TEST(interval.high == high);
    BOOST_TEST(interval.level == level, boost::test_tools::tolerance(1e-3));
  };
  check(6, 1, 6, 0.96875);
  check(10, 2, 9, 0.97852);
  check(20, 6, 15, 0.95861);
}

BOOST_AUTO_TEST_CASE(few_values_state_their_confidence_level) {
  const Interval interval = median_interval({5, 9, 7});
  BOOST_TEST(interval.low == 5);
  BOOST_TEST(interval.high == 9);
  BOOST_TEST(interval.level == 0.75, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(median_interval({5}).level == 0);
}

BOOST_AUTO_TEST_CASE(many_values_have_a_narrow_interval) {
  const Interval interval = median_interval(numbers(1001));
  BOOST_TEST(interval.low > 460);
  BOOST_TEST(interval.low < 501);
  BOOST_TEST(interval.high < 542);
  BOOST_TEST(interval.level >= 0.95);
}

BOOST_AUTO_TEST_SUITE_END()
