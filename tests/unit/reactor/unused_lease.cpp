// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A consumer polls what its polls do not drive: the service thread takes over if nobody else
// drives.
#include <atomic>
#include <thread>

#include "providers/reactor/lease_use.h"
#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/mailbox.h"
#include "tests/unit/reactor/timer_wakes.h"

namespace udapl::test {

namespace {

// Waits that are not ended by the descriptor alone, since that would wake the service thread.
class Waiter {
 public:
  explicit Waiter(Reactor& reactor) : reactor_(reactor), bell_(reactor, EPOLLIN | EPOLLET) {
    bell_.word = &word_;
  }
  ~Waiter() {
    bell_.word = nullptr;
    reactor_.quiesce(bell_);
  }
  void wait() {
    const int before = bell_.rung;
    bell_.ring();
    while (bell_.rung == before) reactor_.block(word_, word_.value(), within(kPatience));
  }
  // Afterwards the lease lasts for 4 ms at least.
  void wait_often() {
    for (int i = 0; i != 128; ++i) wait();
  }

 private:
  Reactor& reactor_;
  WaitWord word_;
  Bell bell_;
};

// Polls until the service thread of `reactor` is no longer parked. Returns whether that has woken
// it.
template <class Poll>
bool polls_wake_service_thread(const Reactor& reactor, Poll poll) {
  const long before = timer_wakes();
  while (reactor.polled()) poll();
  return timer_wakes() != before;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reactor_unused_lease)

BOOST_AUTO_TEST_CASE(it_is_unused_if_nothing_has_changed_for_long) {
  LeaseUse use;
  const Clock::time_point start = Clock::now();
  BOOST_TEST(use.changed(1));
  BOOST_TEST(!use.changed(1));
  BOOST_TEST(!use.ended(start));
  BOOST_TEST(!use.ended(start + tuning::kUnusedLease - 1us));
  BOOST_TEST(use.ended(start + tuning::kUnusedLease));
  BOOST_TEST(use.changed(2));
  BOOST_TEST(!use.changed(2));
  BOOST_TEST(!use.ended(start + tuning::kUnusedLease));
  BOOST_TEST(use.ended(start + 2 * tuning::kUnusedLease));
}

// Some attempts fail because the thread is kept from its processor until the lease has ended.
BOOST_AUTO_TEST_CASE(the_service_thread_takes_over_after_waits) {
  constexpr int kTries = 200;
  const auto reactor = make_reactor();
  Waiter waiter(*reactor);
  bool woken = false;
  for (int i = 0; !woken && i != kTries; ++i) {
    waiter.wait_often();
    woken = polls_wake_service_thread(*reactor, [&] { reactor->end_unused_lease(); });
  }
  BOOST_TEST(woken);
  Bell bell(*reactor);
  bell.ring();
  BOOST_TEST(eventually([&] { return bell.rung == 1; }));
}

BOOST_AUTO_TEST_CASE(so_does_that_of_a_reactor_whose_thread_now_polls_another_one) {
  constexpr int kTries = 200;
  for (const bool drives : {true, false}) {
    const auto left = make_reactor();
    const auto here = make_reactor();
    Waiter waiter(*left);
    bool woken = false;
    for (int i = 0; !woken && i != kTries; ++i) {
      waiter.wait_often();
      woken = polls_wake_service_thread(*left, [&] {
        if (drives)
          here->poll();
        else
          here->end_unused_lease();
      });
    }
    BOOST_TEST(woken);
    Bell bell(*left);
    bell.ring();
    BOOST_TEST(eventually([&] { return bell.rung == 1; }));
  }
}

// One thread, several adapters: the polls of one are no reason to end the lease of the other.
BOOST_AUTO_TEST_CASE(it_stays_away_while_a_thread_polls_two_reactors_in_turn) {
  const auto one = make_reactor();
  const auto other = make_reactor();
  Waiter waiter(*one);
  waiter.wait_often();
  const long before = timer_wakes();
  for (const auto end = Clock::now() + 50ms; Clock::now() < end;) {
    one->poll();
    other->poll();
  }
  BOOST_TEST(timer_wakes() == before);
}

BOOST_AUTO_TEST_CASE(it_stays_away_while_a_thread_waits_again_and_again) {
  const auto reactor = make_reactor();
  Waiter waiter(*reactor);
  waiter.wait_often();
  const long before = timer_wakes();
  for (int i = 0; i != 5000; ++i) {
    waiter.wait();
    reactor->end_unused_lease();
  }
  BOOST_TEST(timer_wakes() == before);
}

// A progress engine polls one queue of connection events with many of completions.
BOOST_AUTO_TEST_CASE(it_stays_away_while_a_thread_polls_something_else_too) {
  for (const int ratio : {1, 16}) {
    for (const bool in_memory : {false, true}) {
      const auto reactor = make_reactor();
      Mailbox box(*reactor);
      if (in_memory) box.show_sign();
      const long before = timer_wakes();
      for (const auto end = Clock::now() + 50ms; Clock::now() < end;) {
        if (in_memory) box.put();
        for (int i = 0; i != ratio; ++i) reactor->poll();
        reactor->end_unused_lease();
      }
      BOOST_TEST(timer_wakes() == before);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_reactor_may_be_destroyed_meanwhile) {
  for (int i = 0; i != 20; ++i) {
    auto reactor = make_reactor();
    Reactor& polled = *reactor;
    {
      Waiter waiter(*reactor);
      waiter.wait_often();
    }
    std::atomic<bool> done{false};
    std::thread poller([&] {
      while (!done) polled.end_unused_lease();
    });
    reactor.reset();
    done = true;
    poller.join();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
