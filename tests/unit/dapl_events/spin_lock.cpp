// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/spin_lock.h"

#include <boost/test/unit_test.hpp>

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace udapl {

namespace {

bool set_fifo() {
  const sched_param priority{.sched_priority = 1};
  return ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &priority) == 0;
}

boost::test_tools::assertion_result may_have_a_real_time_priority(
    boost::unit_test::test_unit_id /*id*/) {
  bool may = false;
  std::thread([&] { may = set_fifo(); }).join();
  boost::test_tools::assertion_result result(may);
  if (!may) result.message() << "needs CAP_SYS_NICE";
  return result;
}

// The calling thread and those that it starts.
void stay_on_this_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  ::pthread_setaffinity_np(::pthread_self(), sizeof one, &one);
}

long times_slept() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spin_lock)

BOOST_AUTO_TEST_CASE(one_thread_at_a_time) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  SpinLock lock;
  long count = 0;  // not atomic: protected by the lock
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const std::scoped_lock guard(lock);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(count == long{kThreads} * kRounds);
}

// Its yields let no thread of a lower priority run, and the holder is one that it has preempted.
// Without a sleep, the holder would wait until the kernel takes the processor from all real-time
// threads for a moment.
BOOST_AUTO_TEST_CASE(a_real_time_thread_lets_the_holder_go_on,
                     *boost::unit_test::precondition(&may_have_a_real_time_priority)) {
  SpinLock lock;
  bool slept = false;
  std::thread([&] {
    stay_on_this_processor();
    std::atomic<bool> waits = false;
    lock.lock();
    std::thread real_time([&] {
      if (!set_fifo()) return;
      waits = true;
      const long sleeps = times_slept();
      const std::scoped_lock guard(lock);
      slept = times_slept() > sleeps;
    });
    while (!waits) ::sched_yield();
    lock.unlock();
    real_time.join();
  }).join();
  BOOST_TEST(slept);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl
