// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: a leader that has slept on a descriptor that can be left goes away without a lease.
// The service thread does not wake for the descriptor, but for everything else.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "tests/unit/reactor/bell.h"

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(reactor_unattended)

namespace {

// A reactor whose last leader has left it unattended.
struct Left {
  std::unique_ptr<Reactor> reactor = make_reactor();
  Bell bell{*reactor};

  Left() {
    bell.leavable = true;
    leave();
  }
  // If the service thread was just awake, the leader has renewed the lease instead.
  void leave() {
    BOOST_REQUIRE(eventually([&] {
      BOOST_REQUIRE(enters_direct_mode(*reactor, bell));
      std::this_thread::sleep_for(40ms);
      return !bell.in_epoll();
    }));
  }
  // Waits until the bell, which a thread rings after `delay`, has rung.
  void wait(Clock::duration delay) {
    wait_for([delay] { std::this_thread::sleep_for(delay); });
  }
  // Likewise, after `cause` has returned.
  template <class Cause>
  void wait_for(Cause cause) {
    WaitWord word;
    bell.word = &word;
    const int before = bell.rung;
    std::thread ringer([&] {
      cause();
      bell.ring();
    });
    while (bell.rung == before) reactor->block(word, word.value(), std::nullopt);
    ringer.join();
    bell.word = nullptr;
    reactor->quiesce(bell);
  }
};

}  // namespace

// Pauses and waits are longer than any lease.
BOOST_AUTO_TEST_CASE(long_waits_wake_no_other_thread) {
  Left left;
  left.wait(30ms);
  const long before = service_sleeps();
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(30ms);
    left.wait(30ms);
    BOOST_TEST((left.bell.thread == std::this_thread::get_id()));
  }
  BOOST_TEST(service_sleeps() - before <= 2);
  BOOST_TEST(!left.bell.in_epoll());
}

// A leader returns without reading what has woken it. Who sleeps next is woken by it, and reads. If
// something else has woken the leader at the same time, it has read everything.
BOOST_AUTO_TEST_CASE(input_is_left_unread) {
  Left left;
  left.wait(1ms);
  int unread = 0;
  for (int round = 0; round < 20; ++round) {
    WaitWord word;
    left.bell.word = &word;
    left.bell.leaves_input = true;
    const int before = left.bell.rung;
    const std::uint32_t seen = word.value();
    std::thread ringer([&] {
      std::this_thread::sleep_for(1ms);
      left.bell.ring();
    });
    while (word.value() == seen) left.reactor->block(word, seen, std::nullopt);
    ringer.join();
    if (left.bell.rung == before) ++unread;
    while (left.bell.rung == before)
      left.reactor->block(word, word.value(), Clock::now() + kPatience);
    BOOST_TEST((left.bell.thread == std::this_thread::get_id()));
    left.bell.word = nullptr;
    left.reactor->quiesce(left.bell);
  }
  BOOST_TEST(unread > 0);
}

// A poll looks at the descriptor, too.
BOOST_AUTO_TEST_CASE(input_that_was_left_is_polled) {
  Left left;
  WaitWord word;
  left.bell.word = &word;
  left.bell.leaves_input = true;
  const int before = left.bell.rung;
  const std::uint32_t seen = word.value();
  left.bell.ring();
  while (word.value() == seen) left.reactor->block(word, seen, std::nullopt);
  left.reactor->progress();
  BOOST_TEST(left.bell.rung == before + 1);
  left.bell.word = nullptr;
  left.reactor->quiesce(left.bell);
}

// If another thread waits, or the input may not be left, it is read at once.
BOOST_AUTO_TEST_CASE(input_that_others_need_is_read) {
  Left left;
  left.bell.leaves_input = true;
  left.bell.leavable = false;
  left.reactor->attend();
  const int before = left.bell.rung;
  left.wait(1ms);
  BOOST_TEST(left.bell.rung == before + 1);
  BOOST_TEST(left.bell.leaves_input);
}

BOOST_AUTO_TEST_CASE(input_is_left_to_the_next_waiter) {
  Left left;
  const int before = left.bell.rung;
  left.bell.ring();
  std::this_thread::sleep_for(50ms);
  BOOST_TEST(left.bell.rung == before);
  WaitWord word;
  left.bell.word = &word;
  while (left.bell.rung == before) left.reactor->block(word, word.value(), std::nullopt);
  BOOST_TEST((left.bell.thread == std::this_thread::get_id()));
  left.bell.word = nullptr;
}

BOOST_AUTO_TEST_CASE(input_is_attended_to_from_now_on) {
  Left left;
  for (int round = 0; round < 20; ++round) {
    left.bell.leavable = true;
    left.leave();
    const int before = left.bell.rung;
    if (round % 2 == 0) left.bell.ring();
    left.bell.leavable = false;
    left.reactor->attend();
    if (round % 2 != 0) left.bell.ring();
    BOOST_REQUIRE(eventually([&] { return left.bell.rung == before + 1; }));
  }
}

// While the leader leaves.
BOOST_AUTO_TEST_CASE(no_change_is_missed) {
  Left left;
  std::atomic<int> rounds{0};
  std::atomic<bool> done{false};
  std::thread changer([&] {
    while (!done) {
      left.bell.leavable = false;
      left.reactor->attend();
      const int before = left.bell.rung;
      left.bell.ring();
      while (left.bell.rung == before) std::this_thread::yield();
      left.bell.leavable = true;
      ++rounds;
    }
  });
  WaitWord word;
  const auto served = [&] {
    left.bell.word = &word;
    for (int i = 0; i < 40; ++i) {
      const std::uint32_t seen = word.value();
      left.bell.ring();
      left.reactor->block(word, seen, within(1ms));
    }
    left.bell.word = nullptr;
    return rounds >= 2000;
  };
  const auto end = Clock::now() + kPatience;
  while (!served() && Clock::now() < end) {
  }
  BOOST_TEST(rounds >= 20);
  done = true;
  changer.join();
}

BOOST_AUTO_TEST_CASE(timers_and_calls_do_not_end_it) {
  Left left;
  Counter counter;
  Timer timer(*left.reactor, Call::to<&Counter::call>(&counter));
  Deferred deferred(*left.reactor, Call::to<&Counter::call>(&counter));
  for (int round = 0; round < 10; ++round) {
    timer.start_after(round % 2 == 0 ? 0ms : 30ms);
    BOOST_REQUIRE(eventually([&] { return counter.ended == 2 * round + 1; }));
    deferred.post();
    BOOST_REQUIRE(eventually([&] { return counter.ended == 2 * round + 2; }));
    BOOST_TEST(!left.bell.in_epoll());
    if (round % 3 == 2) left.wait(10ms);
  }
}

// The timer is started anew before it expires, as that of the scan of idle CQs is (adr 0087).
BOOST_AUTO_TEST_CASE(a_timer_that_is_put_off_wakes_nobody) {
  Left left;
  Counter counter;
  Timer timer(*left.reactor, Call::to<&Counter::call>(&counter));
  const auto wakes = [&] {  // on a busy machine the timer may expire
    timer.start_after(400ms);
    left.wait(1ms);
    const long before = service_sleeps();
    for (int round = 0; round < 40; ++round) {
      timer.start_after(400ms);
      left.wait(30ms);
    }
    return service_sleeps() - before;
  };
  long least = wakes();
  for (int i = 1; i < 8 && least > 1; ++i) least = std::min(least, wakes());
  BOOST_TEST(least <= 1);
  timer.stop();
}

BOOST_AUTO_TEST_CASE(other_descriptors_are_served) {
  Left left;
  Bell other(*left.reactor);
  for (int round = 0; round < 20; ++round) {
    left.leave();
    const int before = other.rung;
    if (round % 2 != 0) std::this_thread::sleep_for(10ms);
    other.ring();
    BOOST_REQUIRE(eventually([&] { return other.rung == before + 1; }));
    BOOST_TEST((other.thread != std::this_thread::get_id()));
  }
}

// The leader sees a timer that fires while it sleeps, and goes on to sleep without a time limit.
BOOST_AUTO_TEST_CASE(timers_fire_during_waits) {
  struct Again {
    Reactor& reactor;
    std::atomic<int> calls{0};
    Timer timer{reactor, Call::to<&Again::call>(this)};
    void call() noexcept {
      ++calls;
      timer.start_after(7ms);
    }
  };
  Left left;
  Again again{*left.reactor};
  again.call();
  for (int round = 0; round < 30; ++round) {
    const int before = again.calls;
    left.wait_for([&] { (void)eventually([&] { return again.calls >= before + 2; }); });
    BOOST_TEST(again.calls >= before + 2);
  }
  again.timer.stop();
}

BOOST_AUTO_TEST_CASE(a_follower_is_never_left_alone) {
  Left left;
  Bell other(*left.reactor);
  WaitWord word;
  other.word = &word;
  std::atomic<int> taken{0};
  constexpr int kRounds = 100;
  std::thread follower([&] {
    while (taken < kRounds) {
      const int before = other.rung;
      while (other.rung == before && taken < kRounds)
        left.reactor->block(word, word.value(), std::nullopt);
      ++taken;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    left.wait(round % 4 == 0 ? 3ms : 0ms);
    const int before = taken;
    other.ring();
    BOOST_REQUIRE(eventually([&] { return taken > before; }));
  }
  taken = kRounds;
  word.signal();
  follower.join();
  other.word = nullptr;
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
