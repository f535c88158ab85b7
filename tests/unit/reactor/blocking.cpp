// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: who drives while threads block and poll, and that nobody wakes up for nothing.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/reactor/bell.h"

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(reactor_blocking)

BOOST_AUTO_TEST_CASE(blocked_thread_serves_its_own_event) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  WaitWord word;
  bell.word = &word;
  int here = 0;
  for (int round = 1; round <= 50; ++round) {
    std::thread ringer([&] {
      std::this_thread::sleep_for(1ms);
      bell.ring();
    });
    while (bell.rung != round)
      BOOST_REQUIRE(
          (reactor->block(word, word.value(), within(kPatience)) != WaitResult::kTimedOut));
    here += bell.thread.load() == std::this_thread::get_id() ? 1 : 0;
    ringer.join();
  }
  BOOST_TEST(here > 10);
}

BOOST_AUTO_TEST_CASE(block_returns_for_a_changed_word_a_deadline_and_a_signal) {
  const auto reactor = make_reactor();
  WaitWord word;
  word.signal();
  BOOST_TEST((reactor->block(word, 0, std::nullopt) == WaitResult::kChanged));
  const auto start = Clock::now();
  BOOST_TEST((block_out(*reactor, word, start + 5ms) == WaitResult::kTimedOut));
  BOOST_TEST((Clock::now() >= start + 5ms));
  BOOST_TEST((block_out(*reactor, word, start) == WaitResult::kTimedOut));

  std::thread changer([&] {
    std::this_thread::sleep_for(10ms);
    word.signal();  // nothing that the reactor sees
  });
  const auto called = word.value();
  BOOST_TEST((reactor->block(word, called, within(kPatience)) == WaitResult::kChanged));
  BOOST_TEST(word.value() != called);
  changer.join();

  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> out{false};
  const pthread_t self = ::pthread_self();
  std::thread signaller([&] {
    while (!out) {
      std::this_thread::sleep_for(2ms);
      ::pthread_kill(self, SIGUSR1);
    }
  });
  const WaitResult result = block_out(*reactor, word, Clock::now() + kPatience);
  out = true;
  signaller.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  BOOST_TEST((result == WaitResult::kInterrupted));
}

// No wake-up is lost whoever leads: every thread waits for its own bell, for each ring anew.
BOOST_AUTO_TEST_CASE(leadership_passes_between_threads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  const auto reactor = make_reactor();
  struct Place {
    explicit Place(Reactor& reactor) : bell(reactor) { bell.word = &word; }
    WaitWord word;
    std::atomic<int> seen{0};
    Bell bell;
  };
  std::vector<std::unique_ptr<Place>> places;
  for (int i = 0; i < kThreads; ++i) places.push_back(std::make_unique<Place>(*reactor));
  std::atomic<int> timeouts{0};
  std::vector<std::thread> threads;
  for (auto& place : places)
    threads.emplace_back([&reactor, &timeouts, place = place.get()] {
      for (int round = 1; round <= kRounds; ++round) {
        while (true) {
          const auto seen = place->word.value();
          if (place->bell.rung >= round) break;
          if (reactor->block(place->word, seen, within(kPatience)) == WaitResult::kTimedOut) {
            ++timeouts;
            break;
          }
        }
        if (round % 7 == 0) reactor->progress();
        if (round % 50 == 0) std::this_thread::sleep_for(3ms);  // longer than a lease
        place->seen = round;
      }
    });
  for (int round = 1; round <= kRounds; ++round)
    for (auto& place : places) {
      BOOST_REQUIRE(eventually([&] { return place->seen >= round - 1; }));
      place->bell.ring();
    }
  for (auto& thread : threads) thread.join();
  BOOST_TEST(timeouts == 0);
}

BOOST_AUTO_TEST_CASE(many_threads_post_poll_block_and_destroy) {
  const auto reactor = make_reactor();
  std::atomic<bool> stop{false};
  std::atomic<int> lost{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      unsigned step = static_cast<unsigned>(i);
      while (!stop) {
        struct Waker {
          void call() noexcept { word.signal(); }
          WaitWord word;
        } waker;
        Timer timer(*reactor, Call::to<&Waker::call>(&waker));
        Deferred deferred(*reactor, Call::to<&Waker::call>(&waker));
        switch (++step % 4) {
          case 0:
            timer.start_after(50us);
            break;
          case 1:
            deferred.post();
            break;
          case 2:
            timer.start_after(0us);
            deferred.post();
            continue;  // destroyed while it waits or runs
          default:
            reactor->progress();
            deferred.post();
        }
        while (waker.word.value() == 0)
          if (reactor->block(waker.word, 0, within(kPatience)) == WaitResult::kTimedOut) {
            ++lost;
            return;
          }
      }
    });
  std::this_thread::sleep_for(400ms);
  stop = true;
  for (auto& thread : threads) thread.join();
  BOOST_TEST(lost == 0);
}

// ---- idleness ----------------------------------------------------------------------------------

namespace {

// Does the service thread sleep through 200 ms? Something periodic never lets it; what is left over
// from before, on a loaded machine, does after a while.
bool sleeps_through() {
  for (int tries = 0; tries < 20; ++tries) {
    const long before = service_sleeps();
    std::this_thread::sleep_for(200ms);
    if (service_sleeps() == before) return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(idle_process_makes_no_wake_ups) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  BOOST_TEST(sleeps_through());
  for (int i = 0; i < 1000; ++i) reactor->progress();  // polls, and stops
  BOOST_TEST(sleeps_through());
}

BOOST_AUTO_TEST_CASE(blocked_leader_makes_no_wake_ups) {
  const auto reactor = make_reactor();
  WaitWord word;
  std::atomic<bool> done{false};
  std::atomic<long> own{-1};
  std::thread blocked([&] {
    const auto mine = [] {
      rusage usage{};
      ::getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw;
    };
    const long before = mine();
    while (!done) reactor->block(word, word.value(), within(kPatience));
    own = mine() - before;
  });
  BOOST_TEST(sleeps_through());
  done = true;
  word.signal();
  blocked.join();
  BOOST_TEST(own.load() <= 5);
}

BOOST_AUTO_TEST_CASE(polling_keeps_the_service_thread_away_but_for_one_look_a_lease) {
  const auto reactor = make_reactor();
  const auto poll_for = [&](Clock::duration time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) reactor->progress();
  };
  poll_for(20ms);
  const long before = service_sleeps();
  poll_for(200ms);
  BOOST_TEST(service_sleeps() - before <= 220);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
