// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Circles of threads that wait for each other: for an agent to return, or for a thread.
#include "common/waiting.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "common/wait_word.h"

namespace udapl::test {

namespace {

// Waits for the threads that are inside `what`.
struct WaitForCall final : Waiting {
  explicit WaitForCall(const void* place) noexcept : what(place) {}
  ~WaitForCall() { end(); }
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override {
    return other.is_inside(what);
  }
  const void* const what;
};

// Waits for a thread while `holds` is true.
struct WaitForThread final : Waiting {
  WaitForThread(pthread_t other, const bool& whether) noexcept : thread(other), holds(whether) {}
  ~WaitForThread() { end(); }
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override {
    return holds && other.is_thread(thread);
  }
  const pthread_t thread;
  const bool& holds;
};

// A thread that is inside `what` and calls `begin` there, whose argument blocks until the
// destructor. The constructor returns when that blocks.
class Other {
 public:
  Other(const void* what, const std::function<void(const std::function<void()>&)>& begin)
      : thread_([this, what, begin] {
          const Inside inside(what);
          begin([this] {
            begun_.signal();
            while (!started_) start_.wait(start_.value(), std::nullopt);
          });
        }) {
    while (begun_.value() == 0) begun_.wait(0, std::nullopt);
  }
  ~Other() {
    started_ = true;
    start_.signal();
    thread_.join();
  }
  [[nodiscard]] pthread_t id() { return thread_.native_handle(); }

 private:
  WaitWord begun_;
  WaitWord start_;
  std::atomic<bool> started_{false};
  std::thread thread_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(waiting)

BOOST_AUTO_TEST_CASE(scopes_nest) {
  const int one = 1;
  const int two = 2;
  BOOST_CHECK(!Inside::of(&one));
  {
    const Inside outer(&one);
    const Inside inner(&two);
    BOOST_CHECK(Inside::of(&one) && Inside::of(&two));
  }
  BOOST_CHECK(!Inside::of(&one) && !Inside::of(&two));
}

// A thread that waits for what it is itself inside waits for itself.
BOOST_AUTO_TEST_CASE(the_smallest_cycle_is_one_thread) {
  const int one = 1;
  const Inside inside(&one);
  WaitForCall wait(&one);
  BOOST_CHECK(!wait.begin());
}

// The other thread waits for a call that this thread makes; this thread wants to wait for the agent
// that the other thread is in.
BOOST_AUTO_TEST_CASE(a_cycle_of_two_kinds) {
  const int one = 1;
  const pthread_t here = ::pthread_self();
  bool holds = true;
  Other other(&one, [&](const std::function<void()>& stay) {
    WaitForThread wait(here, holds);
    BOOST_CHECK(wait.begin());
    stay();
  });
  {
    WaitForCall wait(&one);
    BOOST_CHECK(!wait.begin());
  }
  // The call has ended, so the other thread no longer waits for this one.
  holds = false;
  WaitForCall wait(&one);
  BOOST_CHECK(wait.begin());
}

// The same in the other order, with a third thread in between.
BOOST_AUTO_TEST_CASE(a_cycle_of_three) {
  const int one = 1;
  const int two = 2;
  const int three = 3;
  const bool holds = true;
  const Inside inside(&one);
  Other second(&two, [&](const std::function<void()>& stay) {
    WaitForCall wait(&one);
    BOOST_CHECK(wait.begin());
    stay();
  });
  Other third(&three, [&](const std::function<void()>& stay) {
    WaitForCall wait(&two);
    BOOST_CHECK(wait.begin());
    stay();
  });
  WaitForThread closes(third.id(), holds);
  BOOST_CHECK(!closes.begin());
  const int elsewhere = 4;
  WaitForCall harmless(&elsewhere);
  BOOST_CHECK(harmless.begin());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
