// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How long the service thread stays away. The times are arguments: nothing is measured.
#include "providers/reactor/lease.h"

#include "tests/unit/reactor/support.h"

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(lease)

BOOST_AUTO_TEST_CASE(long_work_between_two_polls_does_not_end_it) {
  using namespace std::chrono_literals;
  Lease lease{Fd()};
  const Clock::time_point start = Clock::now();
  lease.renew_for_poll(start);
  BOOST_TEST(lease.valid(start + Lease::kShortest - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kShortest));
  lease.extend(start);
  BOOST_TEST(lease.valid(start + Lease::kLongWork - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kLongWork));
  // A poll that finds nothing, while the other side works.
  lease.renew_for_poll(start + 10us);
  BOOST_TEST(lease.valid(start + Lease::kLongWork - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kLongWork));
  // Later it is as after other polls.
  const Clock::time_point later = start + 2 * Lease::kLongWork;
  lease.renew_for_poll(later);
  BOOST_TEST(!lease.valid(later + Lease::kShortest));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
