// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A service thread that was woken and does not get a processor.
#include <poll.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "tests/unit/reactor/bell.h"

namespace {

std::atomic<bool> late{false};
std::atomic<bool> woken{false};

// Set in the thread of the test, which may sleep in ppoll, too.
thread_local bool waits_here = false;

}  // namespace

// The service thread sleeps here. While `late`, it does not return.
extern "C" int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t*) {
  constexpr long kPerMs = 1'000'000;
  const long left =
      timeout == nullptr ? -1 : timeout->tv_sec * 1000 + (timeout->tv_nsec + kPerMs - 1) / kPerMs;
  const int ready = ::poll(fds, count, static_cast<int>(left));
  if (waits_here) return ready;
  if (late) woken = true;
  while (late) std::this_thread::yield();
  return ready;
}

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(reactor_late_guard)

BOOST_AUTO_TEST_CASE(leader_sleeps_although_the_guard_was_kicked) {
  waits_here = true;
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
  waits_here = false;
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
