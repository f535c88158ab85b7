// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: no thread wakes up without a reason.
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/timer_wakes.h"

namespace udapl::test {

namespace {

// Returns whether the service thread sleeps through 200 ms, in one of several tries. Remaining
// work delays that on a loaded machine; periodic work prevents it for ever.
bool sleeps_through() {
  for (int tries = 0; tries < 20; ++tries) {
    const long before = service_sleeps();
    std::this_thread::sleep_for(200ms);
    if (service_sleeps() == before) return true;
  }
  return false;
}

// Its handler starts a timer, and ends the wait.
class Starter final : public Handler {
 public:
  explicit Starter(Reactor& reactor) : reactor_(reactor), fd_(::eventfd(0, EFD_NONBLOCK)) {
    BOOST_REQUIRE(reactor_.watch(fd_.get(), EPOLLIN, *this).ok());
  }
  ~Starter() {
    reactor_.unwatch(fd_.get(), *this);
    reactor_.quiesce(*this);
  }
  void ring() {
    const std::uint64_t one = 1;
    if (::write(fd_.get(), &one, sizeof one) != sizeof one) std::abort();
  }
  void on_ready(std::uint32_t) noexcept override {
    std::uint64_t value = 0;
    [[maybe_unused]] const auto got = ::read(fd_.get(), &value, sizeof value);
    timer_.start_after(5ms);
    word.signal();
  }

  WaitWord word;
  std::atomic<int> fired{0};

 private:
  void fire() noexcept { ++fired; }

  Reactor& reactor_;
  Fd fd_;
  Timer timer_{reactor_, Call::to<&Starter::fire>(this)};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(reactor_blocking)

BOOST_AUTO_TEST_CASE(idle_process_makes_no_wake_ups) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  BOOST_TEST(sleeps_through());
  for (int i = 0; i < 1000; ++i) reactor->progress();  // a program polls, and stops
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

BOOST_AUTO_TEST_CASE(polling_keeps_the_service_thread_away) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  const auto poll_for = [&](Clock::duration time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) {
      reactor->poll();
      if (bell.rung % 2 == 0) bell.ring();
    }
  };
  poll_for(20ms);
  const long before = service_sleeps();
  poll_for(200ms);
  // The service thread may wake up each time this thread is descheduled for longer than a lease. If
  // the lease were not renewed, it would wake up every 30 us.
  BOOST_TEST(service_sleeps() - before <= 1000);
}

// In a series of short waits, the service thread is not sent to sleep and woken for each of them.
BOOST_AUTO_TEST_CASE(waits_in_a_row_do_not_wake_the_service_thread) {
  constexpr int kRounds = 2000;
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  WaitWord word;
  bell.word = &word;
  std::atomic<int> asked{0};
  std::thread ringer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (asked < round) std::this_thread::yield();
      bell.ring();
    }
  });
  long before = 0;
  for (int round = 1; round <= kRounds; ++round) {
    if (round == kRounds / 10) before = service_sleeps();
    const auto seen = word.value();
    asked = round;
    while (bell.rung < round)
      BOOST_REQUIRE((reactor->block(word, seen, within(kPatience)) != WaitResult::kTimedOut));
  }
  ringer.join();
  BOOST_TEST(service_sleeps() - before < kRounds / 3);
}

// The leader sees it itself before it sleeps; once it has left, the service thread fires it in
// time.
BOOST_AUTO_TEST_CASE(timer_that_a_leader_starts_wakes_nobody) {
  const auto reactor = make_reactor();
  Starter starter(*reactor);
  for (int round = 1; round <= 10; ++round) {
    std::atomic<bool> waits{false};
    std::thread ringer([&] {
      while (!waits) std::this_thread::yield();
      std::this_thread::sleep_for(30ms);  // the leader outlasts the lease, and then suspends it
      starter.ring();
    });
    const std::uint32_t seen = starter.word.value();
    const long before = timer_wakes();
    waits = true;
    while (starter.word.value() == seen) reactor->block(starter.word, seen, within(kPatience));
    BOOST_TEST(timer_wakes() == before);
    ringer.join();
    BOOST_TEST(eventually([&] { return starter.fired == round; }));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
