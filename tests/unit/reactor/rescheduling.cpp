// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: work that a peer can prolong indefinitely does not starve the descriptors, whichever
// thread drives.
#include <algorithm>
#include <atomic>
#include <thread>
#include <type_traits>

#include "tests/unit/reactor/bell.h"

namespace udapl::test {

namespace {

// A callback that reschedules itself, and counts the calls for which a ring of the bell has been
// pending.
template <class Callback>
class SelfRescheduling {
 public:
  SelfRescheduling(Reactor& reactor, const Bell& bell)
      : bell_(bell), callback_(reactor, Call::to<&SelfRescheduling::call>(this)) {}
  void start() { again(); }
  void end() {
    ended_ = true;
    BOOST_TEST(eventually([this] { return done_.load(); }));
  }

  std::atomic<int> rings{0};  // of the bell, so far
  std::atomic<long> calls{0};
  std::atomic<long> longest{0};  // the most calls during which one ring was pending

 private:
  static constexpr long kHopeless = 100'000;  // stops after so many calls with a pending ring

  void call() noexcept {
    ++calls;
    const int now = rings;
    waited_ = bell_.rung < now && now == ring_ ? waited_ + 1 : 0;
    ring_ = now;
    longest = std::max(longest.load(), waited_);
    if (waited_ < kHopeless && !ended_)
      again();
    else
      done_ = true;
  }
  void again() noexcept {
    if constexpr (std::is_same_v<Callback, Timer>)
      callback_.start_next_turn();
    else
      callback_.post_for_poll();
  }

  const Bell& bell_;
  int ring_ = 0;     // the latest ring that was seen
  long waited_ = 0;  // calls since then, while it has been pending
  std::atomic<bool> ended_{false};
  std::atomic<bool> done_{false};
  Callback callback_;
};

template <class Callback>
struct Fixture {
  void ring() {
    bell.ring();
    ++work.rings;
  }
  ~Fixture() {
    work.end();
    BOOST_TEST(work.longest < 100);
  }

  void wait_for(int round) {
    for (auto seen = word.value(); bell.rung != round; seen = word.value())
      BOOST_REQUIRE((reactor->block(word, seen, within(kPatience)) != WaitResult::kTimedOut));
  }

  WaitWord word;
  std::unique_ptr<Reactor> reactor = make_reactor();
  Bell bell{*reactor};
  SelfRescheduling<Callback> work{*reactor, bell};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(reactor_rescheduling)

BOOST_FIXTURE_TEST_CASE(service_thread_serves_descriptors, Fixture<Timer>) {
  work.start();
  for (int round = 1; round <= 20; ++round) {
    ring();
    BOOST_REQUIRE(eventually([&] { return bell.rung == round; }));
  }
}

BOOST_FIXTURE_TEST_CASE(polling_thread_serves_descriptors_and_callbacks, Fixture<Timer>) {
  work.start();
  for (int i = 0; i < 100; ++i) reactor->poll();
  for (int round = 1; round <= 20; ++round) {
    ring();
    while (bell.rung != round) reactor->poll();
    for (const long now = work.calls; work.calls == now;) reactor->poll();
  }
}

// Behaves like a server that dequeues one event of many after each wait.
BOOST_FIXTURE_TEST_CASE(waiting_threads_serve_descriptors, Fixture<Timer>) {
  bell.word = &word;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    WaitWord never;
    while (!stop) block_out(*reactor, never, Clock::now() + 1ms);
  });
  work.start();
  for (int round = 1; round <= 200; ++round) {
    ring();
    wait_for(round);
  }
  stop = true;
  other.join();
}

// The lease of a thread that has waited lasts for a while; the work does not wait for its end.
BOOST_FIXTURE_TEST_CASE(service_thread_runs_callbacks_for_waiters, Fixture<Timer>) {
  bell.word = &word;
  for (int round = 1; round <= 200; ++round) {
    ring();
    wait_for(round);
    if (round == 100) work.start();
    if (round >= 100)
      for (const long now = work.calls; work.calls == now;) std::this_thread::yield();
  }
}

// A deferred call that posts itself again is run by the next turns; it does not prolong one turn
// for ever.
BOOST_FIXTURE_TEST_CASE(self_posting_calls_do_not_prolong_a_turn, Fixture<Deferred>) {
  for (int i = 0; i < 100; ++i) reactor->poll();
  work.start();
  for (int round = 1; round <= 20; ++round) {
    ring();
    while (bell.rung != round) reactor->poll();
  }
  for (const long now = work.calls; work.calls == now;) std::this_thread::yield();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
