// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: handlers whose input arrives through memory.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/mailbox.h"
#include "tests/unit/reactor/support.h"

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(pollers)

// The thread that destroys a poller waits for the poll that is serving it.
BOOST_AUTO_TEST_CASE(one_is_destroyed_while_another_thread_polls) {
  const auto reactor = make_reactor();
  std::atomic<int> inside{0};
  std::atomic<bool> stop{false};
  std::thread consumer([&] {
    while (!stop) reactor->poll();
  });
  for (int round = 0; round < 1000; ++round) {
    auto box = std::make_unique<Mailbox>(*reactor, &inside);
    box->show_sign();
    const auto end = Clock::now() + kPatience;
    for (long sent = 1; sent <= 20; ++sent) {
      box->put();
      while (sent % 4 == 0 && box->taken < sent && Clock::now() < end) std::this_thread::yield();
    }
    const bool taken = box->taken == 20;
    box.reset();
    BOOST_TEST(taken);
    BOOST_TEST(inside == 0);
    if (!taken || inside != 0) break;
  }
  stop = true;
  consumer.join();
}

BOOST_AUTO_TEST_CASE(one_that_is_awake_needs_no_bell) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  box.restless = true;  // the service thread may take over on a slow machine
  box.put();
  BOOST_REQUIRE(drive_until(*reactor, [&] { return box.taken == 1; }));
  const long bells = box.bells;
  for (int i = 2; i <= 1000; ++i) {
    box.put();
    BOOST_REQUIRE(drive_until(*reactor, [&] { return box.taken == i; }));
  }
  BOOST_TEST(box.bells == bells);
  BOOST_TEST(box.looks >= 999);
}

BOOST_AUTO_TEST_CASE(of_many_pollers_the_idle_ones_rest) {
  const auto reactor = make_reactor();
  std::vector<std::unique_ptr<Mailbox>> boxes;
  for (int i = 0; i < 20; ++i) boxes.push_back(std::make_unique<Mailbox>(*reactor));
  const auto all = [&](auto condition) {
    return drive_until(*reactor, [&] { return std::ranges::all_of(boxes, condition); });
  };
  for (const auto& box : boxes) box->put();
  BOOST_REQUIRE(all([](const auto& box) { return box->taken == 1; }));
  BOOST_REQUIRE(all([](const auto& box) { return box->resting.load(); }));
  const long looks = boxes[3]->looks;
  for (int i = 0; i < 100; ++i) reactor->progress();
  BOOST_TEST(boxes[3]->looks == looks);
  boxes[3]->put();
  BOOST_TEST(drive_until(*reactor, [&] { return boxes[3]->taken == 2; }));
}

// The handlers stay awake, because otherwise their peers would not know that a thread polls and
// would write to the descriptor.
BOOST_AUTO_TEST_CASE(few_are_awake_as_long_as_a_thread_polls) {
  const auto reactor = make_reactor();
  Mailbox first(*reactor);
  Mailbox second(*reactor);
  first.put();  // `second` has never had input
  const long looks = second.looks;
  BOOST_REQUIRE(drive_until(*reactor, [&] { return second.looks > looks + 10'000; }));
  const long bells = second.bells;
  second.put();
  BOOST_TEST(drive_until(*reactor, [&] { return second.taken == 1; }));
  BOOST_TEST(second.bells <= bells + 1);  // the service thread may just have put it to rest
  // When no thread polls any more, the service thread puts both to rest.
  BOOST_TEST(eventually([&] { return first.resting && second.resting; }));
}

// epoll costs a system call, so it is called ever more rarely while it reports nothing.
BOOST_AUTO_TEST_CASE(idle_poller_does_not_delay_descriptors) {
  const auto reactor = make_reactor();
  Mailbox quiet(*reactor);
  Mailbox other(*reactor);
  other.put();
  BOOST_REQUIRE(drive_until(*reactor, [&] { return other.taken == 1 && quiet.looks > 1000; }));
  Bell bell(*reactor);
  for (int i = 1; i <= 5; ++i) {
    for (int poll = 0; poll < 10'000; ++poll) reactor->progress();
    bell.ring();
    BOOST_REQUIRE(drive_until(*reactor, [&] { return bell.rung == i; }));
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_lost_without_a_driver) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  for (int i = 1; i <= 500; ++i) {
    box.put();
    BOOST_REQUIRE(eventually([&] { return box.taken == i; }));
    if (i % 50 == 0) BOOST_REQUIRE(eventually([&] { return box.resting.load(); }));
  }
}

// After any number of turns the handler may be awake, without a bell. No thread drives from then
// on, so the service thread has to find the input.
BOOST_AUTO_TEST_CASE(polls_that_stop_leave_nothing_behind) {
  for (int turns = 1; turns <= 40; turns += 3) {
    const auto reactor = make_reactor();
    Mailbox box(*reactor);
    const auto end = Clock::now() + kPatience;
    for (long i = 1; i <= 50; ++i) {
      box.put();
      for (int turn = 0; turn < turns; ++turn) {
        if (i % 2 == 0)
          reactor->poll();
        else
          reactor->progress();
      }
      box.put();
      BOOST_REQUIRE(eventually([&] { return box.taken == 2 * i; }));
      BOOST_REQUIRE(Clock::now() < end);
    }
  }
}

// A polling thread is recognised as such even if nothing ever wakes the service thread.
BOOST_AUTO_TEST_CASE(habit_is_known_without_any_event) {
  const auto reactor = make_reactor();
  std::this_thread::sleep_for(10ms);  // the service thread goes to sleep in epoll
  BOOST_TEST(drive_until(*reactor, [&] { return reactor->polled(); }));
}

BOOST_AUTO_TEST_CASE(poller_is_called_on_request) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  for (int i = 1; i <= 200; ++i) {
    box.sent.fetch_add(1);  // without a bell
    reactor->request_call(box);
    BOOST_REQUIRE(eventually([&] { return box.taken == i; }));
    if (i % 2 == 0) BOOST_REQUIRE(drive_until(*reactor, [&] { return box.resting.load(); }));
  }
}

// No thread is woken, but the next polls call it, however many pollers there are.
BOOST_AUTO_TEST_CASE(poller_is_called_when_polled) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  std::vector<std::unique_ptr<Mailbox>> others;
  for (int i = 0; i < 20; ++i) others.push_back(std::make_unique<Mailbox>(*reactor));
  const auto all_rest = [&] {
    return box.resting &&
           std::ranges::all_of(others, [](auto& other) { return other->resting.load(); });
  };
  for (int i = 1; i <= 20; ++i) {
    BOOST_REQUIRE(eventually(all_rest));
    box.sent.fetch_add(1);  // without a bell
    reactor->call_when_polled(box);
    reactor->call_when_polled(box);
    if (i % 4 == 0) std::this_thread::sleep_for(2ms);
    BOOST_TEST(box.taken == i - 1);
    BOOST_REQUIRE(drive_until(*reactor, [&] { return box.taken == i; }));
  }
  // It may be gone by then, and another one have its slot.
  auto gone = std::make_unique<Mailbox>(*reactor);
  reactor->call_when_polled(*gone);
  gone.reset();
  const Mailbox next(*reactor);
  for (int i = 0; i < 100; ++i) reactor->poll();
}

// A poller that takes the place of an earlier one does not take over its sign, whose words are
// gone.
BOOST_AUTO_TEST_CASE(a_sign_is_not_inherited) {
  const auto reactor = make_reactor();
  const Sign* before = nullptr;
  {
    Mailbox box(*reactor);
    box.show_sign();
    before = box.sign;
  }
  Mailbox box(*reactor);
  BOOST_TEST(box.sign == before);
  BOOST_TEST(!box.sign->shows_input());
  box.put();
  BOOST_TEST(drive_until(*reactor, [&] { return box.taken == 1; }));
}

BOOST_AUTO_TEST_CASE(a_second_word_changes_the_sign) {
  std::atomic<std::uint64_t> first{7};
  std::atomic<std::uint64_t> second{4};
  Sign sign;
  sign.watch(&first);
  sign.seen(7);
  BOOST_TEST(sign.quiet());
  sign.also(&second, 5);
  BOOST_TEST(sign.quiet());
  second = 6;
  BOOST_TEST(!sign.quiet());
  sign.also(nullptr, 0);
  BOOST_TEST(sign.quiet());
  first = 8;
  BOOST_TEST(!sign.quiet());
}

// One thread waits and another one puts: the wait ends, whatever state both are in.
BOOST_AUTO_TEST_CASE(wait_ends_when_input_arrives) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  WaitWord word;
  box.word = &word;
  constexpr long kRounds = 20'000;
  std::atomic<long> seen{0};
  std::thread sender([&] {
    for (long i = 0; i < kRounds; ++i) {
      while (seen.load() < i) std::this_thread::yield();
      box.put();
    }
  });
  const auto end = Clock::now() + kPatience;
  while (seen.load() < kRounds && Clock::now() < end) {
    const std::uint32_t value = word.value();
    if (box.taken > seen.load()) {
      seen.store(box.taken);
      continue;
    }
    reactor->block(word, value, Clock::now() + 5s);
  }
  BOOST_TEST(seen.load() == kRounds);
  seen.store(kRounds);
  sender.join();
}

// The leader yields to a thread that polls, and leads again when the polling stops.
BOOST_AUTO_TEST_CASE(waiter_makes_way_for_a_polling_thread) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  WaitWord word;
  std::atomic<bool> returned{false};
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    while (!over) {
      const std::uint32_t value = word.value();
      if (over) break;
      reactor->block(word, value, std::nullopt);
    }
    returned = true;
  });
  for (int round = 0; round < 3; ++round) {
    const long before = box.taken;
    // Until the polls drive the reactor, when a message needs no bell.
    const auto end = Clock::now() + kPatience;
    long without_bell = 0;
    for (long i = before + 1; without_bell < 500; ++i) {
      BOOST_REQUIRE(Clock::now() < end);
      const long bells = box.bells;
      box.put();
      while (box.taken < i && Clock::now() < end) reactor->poll();
      if (box.bells == bells) ++without_bell;
    }
    // No thread polls now: a sleeping driving thread is woken.
    const long last = box.taken;
    BOOST_REQUIRE(eventually([&] { return box.resting.load(); }));
    box.put();
    BOOST_REQUIRE(eventually([&] { return box.taken == last + 1; }));
  }
  over = true;
  word.signal();
  BOOST_TEST(eventually([&] { return returned.load(); }));
  waiter.join();
}

BOOST_AUTO_TEST_CASE(pollers_come_and_go_while_others_are_served) {
  const auto reactor = make_reactor();
  Mailbox steady(*reactor);
  std::atomic<bool> over{false};
  std::thread driving([&] {
    while (!over) reactor->progress();
  });
  for (int i = 1; i <= 300; ++i) {
    Mailbox passing(*reactor);
    steady.put();
    passing.put();
    BOOST_REQUIRE(eventually([&] { return steady.taken == i && passing.taken == 1; }));
  }
  over = true;
  driving.join();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
