// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: leaders that sleep directly on a descriptor, not in epoll, lose no event.
#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "tests/unit/reactor/bell.h"

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(reactor_direct)

namespace {

struct Waker {
  void call() noexcept { word.signal(); }
  WaitWord word;
};

}  // namespace

BOOST_AUTO_TEST_CASE(former_waiter_gives_its_descriptor_back) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  for (int round = 0; round < 20; ++round) {
    BOOST_REQUIRE(enters_direct_mode(*reactor, bell));
    const int before = bell.rung;
    bell.ring();
    BOOST_REQUIRE(eventually([&] { return bell.rung == before + 1; }));
    BOOST_TEST(bell.in_epoll());
  }
}

BOOST_AUTO_TEST_CASE(a_poll_sees_the_descriptor) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  for (int round = 0; round < 20; ++round) {
    BOOST_REQUIRE(enters_direct_mode(*reactor, bell));
    const int before = bell.rung;
    bell.ring();
    reactor->progress();
    BOOST_REQUIRE(eventually([&] { return bell.rung == before + 1; }));
  }
}

// A thread that leads in place of the former waiter may be about to sleep on a descriptor that is
// being closed.
BOOST_AUTO_TEST_CASE(a_closed_connection_is_no_lost_descriptor) {
  Waker lost;
  for (int round = 0; round < 100; ++round) {
    const auto reactor = make_reactor();
    reactor->on_descriptors_lost(Call::to<&Waker::call>(&lost));
    auto bell = std::make_unique<Bell>(*reactor);
    BOOST_REQUIRE(enters_direct_mode(*reactor, *bell));
    WaitWord idle;
    std::atomic<bool> begun{false};
    std::atomic<bool> done{false};
    std::thread leader([&] {
      begun = true;
      while (!done) reactor->block(idle, idle.value(), within(500us));
    });
    while (!begun) std::this_thread::yield();
    bell.reset();
    std::this_thread::sleep_for(1ms);
    done = true;
    idle.signal();
    leader.join();
  }
  BOOST_TEST(lost.word.value() == 0U);
}

BOOST_AUTO_TEST_CASE(a_direct_leader_notices_everything_else) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  Bell other(*reactor);
  Waker waker;
  other.word = &waker.word;
  for (int round = 0; round < 240; ++round) {
    bell.leavable = round >= 120;
    BOOST_REQUIRE(enters_direct_mode(*reactor, bell));
    Timer timer(*reactor, Call::to<&Waker::call>(&waker));
    Deferred deferred(*reactor, Call::to<&Waker::call>(&waker));
    const auto seen = waker.word.value();
    if (round % 5 == 4) timer.start_after(3ms);
    std::thread cause([&] {
      if (round % 2 != 0) std::this_thread::sleep_for(1ms);
      switch (round % 5) {
        case 0:
          other.ring();
          break;
        case 1:
          deferred.post();
          break;
        case 2:
          timer.start_after(1ms);
          break;
        case 3:
          waker.word.signal();
          break;
        default:
          break;
      }
    });
    // Every other round is without a deadline: the service thread watches the timers then.
    const Deadline patience = round % 2 == 0 ? Deadline() : within(kPatience);
    while (waker.word.value() == seen)
      BOOST_REQUIRE((reactor->block(waker.word, seen, patience) != WaitResult::kTimedOut));
    cause.join();
  }
}

BOOST_AUTO_TEST_CASE(a_direct_leader_keeps_its_deadline) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  WaitWord word;
  for (const Clock::duration time : {0us, 100us, 3000us, 50000us}) {
    for (int round = 0; round < 10; ++round) {
      bell.leavable = round >= 5;
      BOOST_REQUIRE(enters_direct_mode(*reactor, bell));
      const auto deadline = Clock::now() + time;
      BOOST_TEST((block_out(*reactor, word, deadline) == WaitResult::kTimedOut));
      BOOST_TEST((Clock::now() >= deadline));
    }
  }
}

// Only after block() has returned can the caller notice that its thread was cancelled. The three
// kinds: a leader in epoll, a leader that sleeps directly on a descriptor without looking at the
// clock, and a follower.
BOOST_AUTO_TEST_CASE(sleepers_return_after_some_seconds) {
  struct Sleeper {
    explicit Sleeper(Reactor& reactor)
        : thread([this, &reactor] { result = block_out(reactor, word, std::nullopt); }) {}
    WaitWord word;
    WaitResult result = WaitResult::kChanged;
    std::thread thread;
  };
  const auto reactor = make_reactor();
  Sleeper leader(*reactor);
  std::this_thread::sleep_for(50ms);
  Sleeper follower(*reactor);
  const auto other = make_reactor();
  Bell bell(*other);
  WaitWord word;
  for (const bool leavable : {false, true}) {
    bell.leavable = leavable;
    BOOST_REQUIRE(enters_direct_mode(*other, bell));
    BOOST_TEST((block_out(*other, word, std::nullopt) == WaitResult::kSleptLong));
  }
  leader.thread.join();
  follower.thread.join();
  BOOST_TEST((leader.result == WaitResult::kSleptLong));
  BOOST_TEST((follower.result == WaitResult::kSleptLong));
}

// The number of a closed descriptor is reused at once by the next one.
BOOST_AUTO_TEST_CASE(unwatched_descriptor_is_not_slept_on) {
  const auto reactor = make_reactor();
  for (int round = 0; round < 50; ++round) {
    auto bell = std::make_unique<Bell>(*reactor);
    BOOST_REQUIRE(enters_direct_mode(*reactor, *bell));
    Waker waker;
    std::thread changer([&] {
      if (round % 2 != 0) std::this_thread::sleep_for(500us);
      bell.reset();
      bell = std::make_unique<Bell>(*reactor);
      bell->word = &waker.word;
      bell->ring();
    });
    while (waker.word.value() == 0)
      BOOST_REQUIRE((reactor->block(waker.word, 0, within(kPatience)) != WaitResult::kTimedOut));
    changer.join();
    BOOST_TEST(bell->rung == 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
