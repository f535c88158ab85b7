// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The thread that closes an IA waits for the threads that are inside, in every order of the two.
#include "dapl/objects/visits.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace udapl::test {

using dapl::Visit;
using dapl::Visits;

BOOST_AUTO_TEST_SUITE(visits)

BOOST_AUTO_TEST_CASE(empty_does_not_wait) {
  Visits visits;
  visits.wait_until_empty();
  { const Visit visit(visits); }
  visits.wait_until_empty();
}

// The closer sleeps, and each visitor wakes it.
BOOST_AUTO_TEST_CASE(closer_waits_for_the_last_visitor) {
  constexpr int kVisitors = 3;
  Visits visits;
  std::atomic<int> left{0};
  std::atomic<bool> closed{false};
  for (int i = 0; i < kVisitors; ++i) visits.enter();
  std::thread closer([&] {
    visits.wait_until_empty();
    closed = true;
  });
  for (int i = 0; i < kVisitors; ++i) {
    for (int j = 0; j < 1000; ++j) std::this_thread::yield();  // so that it sleeps, mostly
    BOOST_TEST(!closed);
    ++left;
    visits.leave();
  }
  closer.join();
  BOOST_TEST(left == kVisitors);
}

// The closers of all IAs are woken together; this one finds its own visitor still inside.
BOOST_AUTO_TEST_CASE(visitor_of_another_is_not_waited_for) {
  Visits mine;
  Visits other;
  mine.enter();
  other.enter();
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    mine.wait_until_empty();
    closed = true;
  });
  std::thread other_closer([&] { other.wait_until_empty(); });
  other.leave();
  other_closer.join();
  BOOST_TEST(!closed);
  mine.leave();
  closer.join();
}

// Both step off at the same moment, so that over the rounds each order occurs. A lost wake-up
// leaves the closer asleep for ever; what a visitor wrote must be seen, and the object may be
// destroyed at once.
BOOST_AUTO_TEST_CASE(no_order_loses_a_wake_up) {
  constexpr int kRounds = 3000;
  constexpr int kVisitors = 2;
  for (int round = 0; round < kRounds; ++round) {
    auto visits = std::make_unique<Visits>();
    int written[kVisitors] = {};  // not atomic: the visit orders it
    std::atomic<int> ready{0};
    const auto step_off = [&ready] {
      ++ready;
      while (ready != kVisitors + 1) std::this_thread::yield();
    };
    for (int i = 0; i < kVisitors; ++i) visits->enter();
    std::vector<std::thread> visitors;
    for (int i = 0; i < kVisitors; ++i)
      visitors.emplace_back([&, i] {
        step_off();
        written[i] = round + 1;
        visits->leave();
      });
    step_off();
    if (round % 3 == 0) std::this_thread::yield();
    visits->wait_until_empty();
    visits.reset();
    for (const int value : written) BOOST_REQUIRE_EQUAL(value, round + 1);
    for (std::thread& visitor : visitors) visitor.join();
  }
}

// As Evd::try_dequeue() does: a visitor that enters while the IA is being closed either is waited
// for, or sees that it is refused.
BOOST_AUTO_TEST_CASE(visitor_is_waited_for_or_refused) {
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    Visits visits;
    std::atomic<bool> refused{false};
    std::atomic<bool> open{true};
    std::atomic<int> ready{0};
    std::atomic<bool> late{false};
    const auto step_off = [&ready] {
      ++ready;
      while (ready != 2) std::this_thread::yield();
    };
    std::thread visitor([&] {
      step_off();
      const Visit visit(visits);
      if (refused.load(std::memory_order_seq_cst)) return;
      if (!open.load(std::memory_order_relaxed)) late = true;
    });
    step_off();
    refused.store(true, std::memory_order_seq_cst);
    visits.wait_until_empty();
    open.store(false, std::memory_order_relaxed);
    visitor.join();
    BOOST_REQUIRE(!late);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
