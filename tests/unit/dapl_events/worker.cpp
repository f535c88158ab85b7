// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The thread that calls agents which must not be called in the thread that produced their event.
#include "common/worker.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/wait_word.h"

namespace udapl::test {

namespace {

class Step final : public Worker::Job {
 public:
  Step(const void* owner, std::function<void()> step) : Job(owner), step_(std::move(step)) {}
  void run() noexcept override { step_(); }

 private:
  const std::function<void()> step_;
};

bool give(Worker& worker, const void* owner, std::function<void()> step) {
  std::unique_ptr<Worker::Job> job = std::make_unique<Step>(owner, std::move(step));
  return worker.give(job);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(worker)

BOOST_AUTO_TEST_CASE(jobs_run_in_order_and_before_destruction) {
  std::vector<int> done;
  {
    Worker worker("test");
    for (int i = 0; i < 100; ++i)
      BOOST_REQUIRE(give(worker, &done, [&done, i] { done.push_back(i); }));
  }
  BOOST_REQUIRE_EQUAL(done.size(), 100);
  for (int i = 0; i < 100; ++i) BOOST_CHECK_EQUAL(done[i], i);
}

BOOST_AUTO_TEST_CASE(a_job_may_queue_another) {
  std::atomic<int> done{0};
  std::atomic<bool> queued{false};
  {
    Worker worker("test");
    BOOST_REQUIRE(give(worker, &done, [&] {
      ++done;
      queued = give(worker, &done, [&] { ++done; });
    }));
  }
  BOOST_CHECK(queued);
  BOOST_CHECK_EQUAL(done, 2);
}

// A program's handler of SIGSEGV also serves its agents.
BOOST_AUTO_TEST_CASE(job_takes_no_signals_but_its_own) {
  sigset_t mask;
  {
    Worker worker("test");
    BOOST_REQUIRE(give(worker, &mask, [&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &mask); }));
  }
  BOOST_CHECK_EQUAL(::sigismember(&mask, SIGSEGV), 0);
  BOOST_CHECK_EQUAL(::sigismember(&mask, SIGBUS), 0);
  BOOST_CHECK_EQUAL(::sigismember(&mask, SIGTERM), 1);
}

// Jobs of another owner are kept, and so is the one that has begun.
BOOST_AUTO_TEST_CASE(queued_jobs_can_be_cancelled) {
  const int one = 1;
  const int other = 2;
  std::atomic<int> done{0};
  WaitWord begun;
  WaitWord go;
  {
    Worker worker("test");
    BOOST_REQUIRE(give(worker, &one, [&] {
      begun.signal();
      while (go.value() == 0) go.wait(0, std::nullopt);
      done += 1;
    }));
    while (begun.value() == 0) begun.wait(0, std::nullopt);
    for (int i = 0; i < 3; ++i) {
      BOOST_REQUIRE(give(worker, &one, [&] { done += 10; }));
      BOOST_REQUIRE(give(worker, &other, [&] { done += 100; }));
    }
    worker.cancel(&one);
    go.signal();
  }
  BOOST_CHECK_EQUAL(done, 301);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
