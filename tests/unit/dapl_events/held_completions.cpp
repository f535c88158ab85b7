// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completions that wait for the ESTABLISHED event of their EP.
#include "dapl/events/held_completions.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace udapl::test {

using dapl::Cookie;
using dapl::HeldCompletions;
using transport::Completion;

namespace {

// Two EPs, of which only the addresses matter, with a cookie for each of their completions.
struct Fixture {
  std::array<int, 2> eps{};
  std::array<Cookie, 8> cookies{};
  HeldCompletions held;

  Fixture() { held.reserve(cookies.size()); }
  void* ep(std::size_t index) { return &eps[index]; }
  // The number is also the completion's length.
  Completion completion(std::size_t number, std::size_t of_ep) {
    cookies[number].ep = static_cast<dapl::EpQueues*>(ep(of_ep));
    Completion made{};
    made.id = reinterpret_cast<std::uintptr_t>(&cookies[number]);
    made.length = static_cast<std::uint32_t>(number);
    return made;
  }
  void hold(std::size_t number, std::size_t of_ep) { held.hold(completion(number, of_ep)); }
  // Releases those of one EP, at most so many; returns their numbers.
  std::vector<std::size_t> release(std::size_t of_ep, std::size_t most = 8) {
    std::vector<std::size_t> numbers;
    held.release([&](const Completion& offered) {
      if (dapl::ep_of(offered) != ep(of_ep) || numbers.size() == most) return false;
      numbers.push_back(offered.length);
      return true;
    });
    return numbers;
  }
  static void check(const std::vector<std::size_t>& numbers, std::vector<std::size_t> expected) {
    BOOST_CHECK_EQUAL_COLLECTIONS(numbers.begin(), numbers.end(), expected.begin(), expected.end());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(held_completions, Fixture)

BOOST_AUTO_TEST_CASE(those_of_one_ep_leave_in_order) {
  hold(1, 0);
  hold(2, 1);
  hold(3, 0);
  check(release(0), {1, 3});
  BOOST_CHECK(!held.has_any_of(ep(0)));
  BOOST_CHECK(held.has_any_of(ep(1)));
  check(release(1), {2});
  BOOST_CHECK(held.empty());
}

// Its EP may have been connected, and the ring have been full, when the first one was offered.
BOOST_AUTO_TEST_CASE(none_overtakes_an_older_one_of_its_ep) {
  hold(1, 0);
  hold(2, 0);
  hold(3, 1);
  bool first = true;
  std::vector<std::size_t> numbers;
  held.release([&](const Completion& offered) {
    if (std::exchange(first, false)) return false;
    numbers.push_back(offered.length);
    return true;
  });
  check(numbers, {3});
  check(release(0), {1, 2});
}

BOOST_AUTO_TEST_CASE(the_rest_stays_in_order) {
  hold(1, 0);
  hold(2, 0);
  hold(3, 0);
  check(release(0, 1), {1});
  BOOST_CHECK_EQUAL(held.size(), 2);
  check(release(0), {2, 3});
}

BOOST_AUTO_TEST_CASE(those_of_an_ep_can_be_removed) {
  hold(1, 0);
  hold(2, 1);
  held.remove_if([&](const Completion& each) { return dapl::ep_of(each) == ep(0); });
  BOOST_CHECK_EQUAL(held.size(), 1);
  check(release(1), {2});
}

BOOST_AUTO_TEST_CASE(it_is_full_when_what_was_reserved_is_used) {
  BOOST_CHECK(!held.full());
  while (!held.full()) hold(0, 0);
  BOOST_CHECK(held.size() >= cookies.size());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
