// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Calls of several reactors that close each other's callbacks: no call waits for ever, and each one
// that can wait does.
#include "providers/reactor/callbacks.h"
#include "providers/reactor/reactor.h"
#include "tests/unit/reactor/support.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace udapl::test {
namespace {

// A deferred call that waits until all calls of its circle are running, then closes the next one.
struct Member {
  explicit Member(Reactor& reactor) : call(reactor, Call::to<&Member::run>(this)) {}
  void run() noexcept {
    ++*called;
    while (*called < size) std::this_thread::yield();
    next->call.close();
    // If close() did not wait, the next one's call is still running. At most one may be so.
    if (next->done.load() == 0) ++*not_waited;
    done = 1;
  }
  Deferred call;
  Member* next = nullptr;
  std::atomic<int>* called = nullptr;
  std::atomic<int>* not_waited = nullptr;
  int size = 0;
  std::atomic<int> done{0};
};

void run_circle(int size) {
  std::vector<std::unique_ptr<Reactor>> reactors;
  std::vector<std::unique_ptr<Member>> members;
  std::atomic<int> called{0};
  std::atomic<int> not_waited{0};
  for (int i = 0; i < size; ++i) {
    reactors.push_back(make_reactor());
    members.push_back(std::make_unique<Member>(*reactors.back()));
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    Member& member = *members[i];
    member.next = members[(i + 1) % members.size()].get();
    member.called = &called;
    member.not_waited = &not_waited;
    member.size = size;
  }
  for (const auto& member : members) member->call.post();
  BOOST_REQUIRE(eventually([&] {
    for (const auto& member : members)
      if (member->done == 0) return false;
    return true;
  }));
  BOOST_TEST(not_waited <= 1);
  // All reactors still work.
  for (const auto& reactor : reactors) {
    std::atomic<bool> rung{false};
    Deferred bell(
        *reactor,
        Call{[](void* flag) noexcept { *static_cast<std::atomic<bool>*>(flag) = true; }, &rung});
    bell.post();
    BOOST_TEST(eventually([&] { return rung.load(); }));
  }
  members.clear();
}

BOOST_AUTO_TEST_SUITE(circles)

BOOST_AUTO_TEST_CASE(two_calls_close_each_other) {
  for (int round = 0; round < 50; ++round) run_circle(2);
}

BOOST_AUTO_TEST_CASE(five_calls_close_each_other_in_a_circle) {
  for (int round = 0; round < 20; ++round) run_circle(5);
}

// Without a circle, close() waits for the other call.
BOOST_AUTO_TEST_CASE(a_call_waits_for_one_that_does_not_wait) {
  const auto one = make_reactor();
  const auto other = make_reactor();
  struct Slow {
    explicit Slow(Reactor& reactor) : call(reactor, Call::to<&Slow::run>(this)) {}
    void run() noexcept {
      begun = true;
      std::this_thread::sleep_for(20ms);
      ended = true;
    }
    Deferred call;
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};
  } slow(*other);
  struct Closer {
    Closer(Reactor& reactor, Slow& target)
        : call(reactor, Call::to<&Closer::run>(this)), slow(target) {}
    void run() noexcept {
      while (!slow.begun) std::this_thread::yield();
      slow.call.close();
      waited = slow.ended.load();
      done = true;
    }
    Deferred call;
    Slow& slow;
    std::atomic<bool> waited{false};
    std::atomic<bool> done{false};
  } closer(*one, slow);
  slow.call.post();
  closer.call.post();
  BOOST_REQUIRE(eventually([&] { return closer.done.load(); }));
  BOOST_TEST(closer.waited);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
