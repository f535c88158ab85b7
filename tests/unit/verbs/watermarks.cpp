// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/watermarks.h"

#include <boost/test/unit_test.hpp>

namespace udapl::verbs {

namespace {

struct Fixture {
  QpLock lock;
  Watermarks marks;

  void set(int soft, int hard) {
    const QpGuard guard(lock);
    marks.set(soft, hard);
  }
  Watermarks::Exceeded check(int held) {
    const QpGuard guard(lock);
    return marks.check(held);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(watermarks, Fixture)

BOOST_AUTO_TEST_CASE(none_is_set_at_first) {
  BOOST_CHECK(!marks.armed());
  const Watermarks::Exceeded exceeded = check(1000);
  BOOST_CHECK(!exceeded.soft);
  BOOST_CHECK(!exceeded.hard);
}

BOOST_AUTO_TEST_CASE(a_mark_is_exceeded_by_one_more) {
  set(2, 4);
  BOOST_CHECK(marks.armed());
  BOOST_CHECK(!check(2).soft);
  BOOST_CHECK(!check(4).hard);
  BOOST_CHECK(check(5).hard);
}

BOOST_AUTO_TEST_CASE(the_soft_mark_fires_once) {
  set(2, -1);
  BOOST_CHECK(check(3).soft);
  BOOST_CHECK(!marks.armed());
  BOOST_CHECK(!check(3).soft);
}

BOOST_AUTO_TEST_CASE(the_hard_mark_stays) {
  set(-1, 2);
  BOOST_CHECK(check(3).hard);
  BOOST_CHECK(marks.armed());
  BOOST_CHECK(check(3).hard);
}

BOOST_AUTO_TEST_CASE(marks_of_zero_are_set) {
  set(0, -1);
  BOOST_CHECK(marks.armed());
  BOOST_CHECK(!check(0).soft);
  BOOST_CHECK(check(1).soft);
}

BOOST_AUTO_TEST_CASE(marks_can_be_taken_back) {
  set(1, 2);
  set(-1, -1);
  BOOST_CHECK(!marks.armed());
  BOOST_CHECK(!check(3).hard);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
