// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Waits that end at once or very soon: they are polls.
#include <atomic>
#include <thread>

#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/mailbox.h"

namespace udapl::test {

namespace {

constexpr Clock::duration kTimes[] = {0us, 1us, 20us};

// How many bells are rung for 20 messages to a thread that makes one such wait after another.
long bells_rung(Reactor& reactor, Mailbox& box, WaitWord& word, Clock::duration time) {
  const long before = box.bells;
  for (int round = 0; round != 20; ++round) {
    for (int i = 0; i != round % 4; ++i) reactor.block(word, word.value(), within(time));
    box.put();
    const auto end = Clock::now() + kPatience;
    while (box.taken < box.sent && Clock::now() < end)
      reactor.block(word, word.value(), within(time));
    BOOST_REQUIRE_EQUAL(box.taken.load(), box.sent.load());
  }
  return box.bells - before;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reactor_brief_waits)

// A peer rings a bell only if the thread was kept from its processor for longer than a lease, which
// happens now and then, but not all the time.
BOOST_AUTO_TEST_CASE(pollers_stay_awake_between_them) {
  for (const Clock::duration time : kTimes) {
    const auto reactor = make_reactor();
    WaitWord word;
    Mailbox box(*reactor);
    box.show_sign();
    box.word = &word;
    bool quiet = false;
    for (int tries = 0; !quiet && tries != 500; ++tries)
      quiet = bells_rung(*reactor, box, word, time) < 5;
    BOOST_TEST(quiet);
  }
}

BOOST_AUTO_TEST_CASE(they_end_in_time_and_at_a_change) {
  const auto reactor = make_reactor();
  WaitWord word;
  for (const Clock::duration time : kTimes) {
    const Deadline deadline = within(time);
    BOOST_TEST((reactor->block(word, word.value(), deadline) == WaitResult::kTimedOut));
    BOOST_TEST((Clock::now() >= *deadline));
  }
  word.signal();
  BOOST_TEST((reactor->block(word, 0, Clock::now()) == WaitResult::kChanged));
}

BOOST_AUTO_TEST_CASE(they_keep_the_service_thread_away) {
  const auto reactor = make_reactor();
  WaitWord word;
  const auto wait_for = [&](Clock::duration time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) reactor->block(word, 0, Clock::now());
  };
  wait_for(20ms);
  const long before = service_sleeps();
  wait_for(200ms);
  BOOST_TEST(service_sleeps() - before <= 1000);  // as for polls
}

// While another thread leads, a wait that has some time left sleeps and is served.
BOOST_AUTO_TEST_CASE(they_are_served_while_another_thread_leads) {
  for (const Clock::duration time : kTimes) {
    const auto reactor = make_reactor();
    WaitWord idle;
    std::atomic<bool> done{false};
    std::thread leader([&] {
      while (!done) reactor->block(idle, idle.value(), within(kPatience));
    });
    Bell bell(*reactor);
    WaitWord word;
    bell.word = &word;
    for (int round = 1; round <= 200; ++round) {
      bell.ring();
      const auto end = Clock::now() + kPatience;
      while (bell.rung < round && Clock::now() < end)
        reactor->block(word, word.value(), within(time));
      BOOST_CHECK_EQUAL(bell.rung.load(), round);
    }
    bell.word = nullptr;
    reactor->quiesce(bell);
    done = true;
    idle.signal();
    leader.join();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
