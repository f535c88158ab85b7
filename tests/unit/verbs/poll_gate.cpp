// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/transport/poll_gate.h"

#include <boost/test/unit_test.hpp>

#include "providers/verbs/barrier.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace udapl::verbs {

namespace {

using transport::PollGate;

}  // namespace

BOOST_AUTO_TEST_SUITE(poll_gate)

BOOST_AUTO_TEST_CASE(open_while_no_bit_is_set) {
  PollGate gate(1);
  BOOST_CHECK(!gate.open());
  gate.set(PollGate::kDiverted);
  gate.clear(1);
  BOOST_CHECK(!gate.open());
  BOOST_CHECK_EQUAL(gate.bits(), PollGate::kDiverted);
  gate.clear(PollGate::kDiverted);
  BOOST_CHECK(gate.open());
}

BOOST_AUTO_TEST_CASE(occupied_between_announcing_and_withdrawing) {
  PollGate gate;
  int word = 0;
  BOOST_CHECK(!gate.occupied());
  gate.announce(&word);
  BOOST_CHECK(gate.occupied());
  BOOST_CHECK(gate.announced() == &word);
  gate.withdraw();
  BOOST_CHECK(!gate.occupied());
}

BOOST_AUTO_TEST_CASE(unused_since_the_last_look) {
  PollGate gate;
  int word = 0;
  BOOST_CHECK(!gate.unused());
  BOOST_CHECK(gate.unused());
  BOOST_CHECK(!gate.occupied());  // the mark is nobody
  gate.announce(&word);
  BOOST_CHECK(!gate.unused());  // nor does it take the place of who is there
  BOOST_CHECK(gate.announced() == &word);
  gate.withdraw();
  BOOST_CHECK(!gate.unused());
  BOOST_CHECK(gate.unused());
}

// What Cq and the core do, each in its thread: never both inside.
BOOST_AUTO_TEST_CASE(keeps_the_consumer_out_without_a_fence_of_his) {
  if (!has_process_barrier()) return;  // then the gate is never open
  constexpr int kLooks = 300;
  PollGate gate;
  std::mutex lock;
  std::atomic<bool> done{false};
  std::atomic<bool> inside{false};
  std::atomic<bool> looking{false};
  std::atomic<int> both{0};
  int word = 0;
  std::thread consumer([&] {
    const auto poll = [&] {
      inside.store(true, std::memory_order_relaxed);
      if (looking.load(std::memory_order_relaxed)) both.fetch_add(1);
      inside.store(false, std::memory_order_relaxed);
    };
    while (!done.load(std::memory_order_relaxed)) {
      gate.announce(&word);
      if (gate.open()) {
        poll();
        gate.withdraw();
        continue;
      }
      gate.withdraw();
      const std::scoped_lock guard(lock);
      poll();
    }
  });
  for (int i = 0; i < kLooks; ++i) {
    gate.set(PollGate::kDiverted);
    process_barrier();
    while (gate.occupied()) std::this_thread::yield();
    const std::scoped_lock guard(lock);
    looking.store(true, std::memory_order_relaxed);
    if (inside.load(std::memory_order_relaxed)) both.fetch_add(1);
    looking.store(false, std::memory_order_relaxed);
    gate.clear(PollGate::kDiverted);
  }
  done.store(true);
  consumer.join();
  BOOST_CHECK_EQUAL(both.load(), 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
