// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/posted_binds.h"

#include <boost/test/unit_test.hpp>

namespace udapl::verbs {

BOOST_AUTO_TEST_SUITE(posted_binds)

BOOST_AUTO_TEST_CASE(nothing_is_posted_before_the_first_bind) {
  PostedBinds binds;
  binds.reset(4);
  BOOST_CHECK(!binds.any());
  BOOST_CHECK_EQUAL(binds.latest(8), 0);
}

BOOST_AUTO_TEST_CASE(a_bind_is_found_by_its_wr_id) {
  PostedBinds binds;
  binds.reset(4);
  BOOST_REQUIRE(binds.reserve());
  BOOST_CHECK(binds.any());
  binds.add(8, 1);
  binds.add(16, 2);
  BOOST_CHECK_EQUAL(binds.latest(8), 1);
  BOOST_CHECK_EQUAL(binds.latest(16), 2);
  BOOST_CHECK_EQUAL(binds.latest(24), 0);
}

BOOST_AUTO_TEST_CASE(the_latest_bind_with_a_wr_id_counts) {
  PostedBinds binds;
  binds.reset(4);
  BOOST_REQUIRE(binds.reserve());
  binds.add(8, 1);
  binds.add(8, 2);
  BOOST_CHECK_EQUAL(binds.latest(8), 2);
}

BOOST_AUTO_TEST_CASE(a_bind_that_was_not_posted_is_taken_back) {
  PostedBinds binds;
  binds.reset(2);
  BOOST_REQUIRE(binds.reserve());
  binds.add(8, 1);
  binds.add(8, 2);
  binds.remove_last();
  BOOST_CHECK_EQUAL(binds.latest(8), 1);
  binds.add(16, 3);
  BOOST_CHECK_EQUAL(binds.latest(8), 1);
  BOOST_CHECK_EQUAL(binds.latest(16), 3);
}

BOOST_AUTO_TEST_CASE(the_oldest_bind_is_overwritten) {
  PostedBinds binds;
  binds.reset(2);
  BOOST_REQUIRE(binds.reserve());
  binds.add(8, 1);
  binds.add(16, 2);
  BOOST_REQUIRE(binds.reserve());  // changes nothing
  binds.add(24, 3);
  BOOST_CHECK_EQUAL(binds.latest(8), 0);
  BOOST_CHECK_EQUAL(binds.latest(16), 2);
  BOOST_CHECK_EQUAL(binds.latest(24), 3);
}

BOOST_AUTO_TEST_CASE(a_new_ibv_qp_has_no_binds) {
  PostedBinds binds;
  binds.reset(1);
  BOOST_REQUIRE(binds.reserve());
  binds.add(8, 1);
  binds.reset(2);
  BOOST_CHECK(!binds.any());
  BOOST_CHECK_EQUAL(binds.latest(8), 0);
  BOOST_REQUIRE(binds.reserve());
  binds.add(16, 2);
  binds.add(24, 3);
  BOOST_CHECK_EQUAL(binds.latest(16), 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
