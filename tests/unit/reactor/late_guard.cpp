// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A service thread that sleeps, was woken, or is about to sleep, and does not get a processor.
#include <poll.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/timer_wakes.h"

namespace {

std::atomic<bool> late{false};
std::atomic<bool> asleep{false};
std::atomic<bool> woken{false};
std::atomic<bool> timed_out{false};

// These do not get into ppoll.
enum class Late : std::uint8_t { kNone, kService, kOthers };
std::atomic<Late> sleeps_late{Late::kNone};
std::atomic<bool> about_to_sleep{false};

}  // namespace

// The guard sleeps here. While `late`, it does not return. A leader that sleeps directly on a
// descriptor does so, too, if it has a time limit.
extern "C" int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t*) {
  constexpr long kPerMs = 1'000'000;
  const bool service = udapl::test::is_service_thread();
  while (sleeps_late == (service ? Late::kService : Late::kOthers)) {
    about_to_sleep = true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (service) asleep = true;
  const long left =
      timeout == nullptr ? -1 : timeout->tv_sec * 1000 + (timeout->tv_nsec + kPerMs - 1) / kPerMs;
  const int ready = ::poll(fds, count, static_cast<int>(left));
  if (!service) return ready;
  if (ready == 0 && left > 1000) timed_out = true;
  if (late) woken = true;
  while (late) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return ready;
}

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(reactor_late_guard)

BOOST_AUTO_TEST_CASE(leader_sleeps_although_the_guard_was_kicked) {
  woken = false;
  const auto reactor = make_reactor();
  WaitWord word;
  Counter counter;
  Deferred call(*reactor, Call::to<&Counter::call>(&counter));
  late = true;
  // The guard may not have been asleep yet: then it was not kicked.
  for (const auto end = Clock::now() + kPatience; !woken && Clock::now() < end;) {
    call.post();
    std::this_thread::sleep_for(1ms);
  }
  const std::uint32_t before = reactor->looks();
  BOOST_TEST((block_out(*reactor, word, within(50ms)) == WaitResult::kTimedOut));
  BOOST_TEST(counter.ended.load() >= 1);
  BOOST_TEST(reactor->looks() - before < 20U);
  late = false;
}

namespace {

// Waits for a bell, each time after it has rung.
void wait_for_rings(Reactor& reactor, Bell& bell, int count) {
  WaitWord word;
  bell.word = &word;
  for (int i = 0; i < count; ++i) {
    const int before = bell.rung;
    bell.ring();
    while (bell.rung == before) reactor.block(word, word.value(), within(kPatience));
  }
  bell.word = nullptr;
  reactor.quiesce(bell);
}

// A reactor that was left unattended by a leader whose events the guard has not noticed, or has
// noticed and is late.
struct LeftByLeader {
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Bell> bell;

  explicit LeftByLeader(bool unnoticed = false) {
    asleep = about_to_sleep = timed_out = false;
    if (unnoticed) sleeps_late = Late::kService;
    reactor = make_reactor();
    bell = std::make_unique<Bell>(*reactor);
    bell->leavable = true;
    BOOST_REQUIRE(eventually([&] { return unnoticed ? about_to_sleep.load() : asleep.load(); }));
    late = !unnoticed;
    wait_for_rings(*reactor, *bell, 40);
    BOOST_TEST(!bell->in_epoll());
  }
  ~LeftByLeader() { release(); }
  static void release() {
    late = parks_late = false;
    sleeps_late = Late::kNone;
  }
  // Lets the guard park.
  void let_park() const {
    release();
    BOOST_REQUIRE(eventually([&] { return reactor->polled(); }));
  }
};

}  // namespace

namespace {

void leave_a_sleeping_guard(bool unnoticed) {
  const LeftByLeader left(unnoticed);
  left.let_park();
  BOOST_TEST(!timed_out);
  const int before = left.bell->rung;
  left.bell->ring();
  std::this_thread::sleep_for(40ms);
  BOOST_TEST(left.bell->rung == before);
  BOOST_TEST(!left.bell->in_epoll());
  wait_for_rings(*left.reactor, *left.bell, 40);
  left.bell->leavable = false;
  left.reactor->attend();
  left.bell->ring();
  BOOST_TEST(eventually([&] { return left.bell->rung > before + 40; }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(leader_leaves_although_a_guard_sleeps) {
  for (const bool unnoticed : {false, true}) leave_a_sleeping_guard(unnoticed);
}

BOOST_AUTO_TEST_CASE(guard_that_has_not_parked_attends_to_everything) {
  const LeftByLeader left;
  const int before = left.bell->rung;
  left.bell->leavable = false;
  left.reactor->attend();
  left.bell->ring();
  late = false;
  BOOST_TEST(eventually([&] { return left.bell->rung > before; }));
}

BOOST_AUTO_TEST_CASE(leader_leaves_although_the_service_thread_is_awake) {
  const LeftByLeader left;
  Counter counter;
  Deferred call(*left.reactor, Call::to<&Counter::call>(&counter));
  for (int round = 0; round < 10; ++round) {
    left.let_park();
    parks_late = true;
    call.post();
    BOOST_REQUIRE(eventually([&] { return counter.ended == round + 1; }));
    wait_for_rings(*left.reactor, *left.bell, 1);
    parks_late = false;
    std::this_thread::sleep_for(40ms);  // longer than a lease
    BOOST_TEST(!left.bell->in_epoll());
  }
}

// The leader finds a kick together with its event.
BOOST_AUTO_TEST_CASE(a_kick_does_not_put_the_descriptor_back) {
  const LeftByLeader left;
  left.let_park();
  Counter counter;
  Deferred call(*left.reactor, Call::to<&Counter::call>(&counter));
  about_to_sleep = false;
  sleeps_late = Late::kOthers;
  std::thread others([&] {
    const bool sleeps = eventually([] { return about_to_sleep.load(); });
    call.post();
    left.bell->ring();
    sleeps_late = Late::kNone;
    if (!sleeps) std::abort();
  });
  WaitWord word;
  left.bell->word = &word;
  const int before = left.bell->rung;
  // The service thread wakes later than that, so the leader sleeps with a time limit.
  while (left.bell->rung == before) left.reactor->block(word, word.value(), within(1s));
  others.join();
  left.bell->word = nullptr;
  left.reactor->quiesce(*left.bell);
  BOOST_TEST(counter.ended == 1);
  BOOST_TEST(!left.bell->in_epoll());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
