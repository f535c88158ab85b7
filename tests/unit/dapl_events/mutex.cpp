// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/mutex.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

namespace udapl {

BOOST_AUTO_TEST_SUITE(mutex)

BOOST_AUTO_TEST_CASE(one_thread_at_a_time) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  Mutex lock;
  long count = 0;  // not atomic: protected by the lock
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const ScopedLock guard(lock);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_CHECK_EQUAL(count, long{kThreads} * kRounds);
}

BOOST_AUTO_TEST_CASE(every_sleeper_gets_the_lock) {
  Mutex lock;
  int got = 0;
  std::vector<std::thread> threads;
  {
    const ScopedLock guard(lock);
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        const ScopedLock inner(lock);
        ++got;
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until most of them sleep
    BOOST_CHECK_EQUAL(got, 0);
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_CHECK_EQUAL(got, 8);
}

BOOST_AUTO_TEST_CASE(try_lock_fails_while_another_thread_holds_it) {
  Mutex lock;
  BOOST_REQUIRE(lock.try_lock());
  bool got = false;
  std::thread([&] {
    got = lock.try_lock();
    if (got) lock.unlock();
  }).join();
  BOOST_CHECK(!got);
  lock.unlock();
  BOOST_REQUIRE(lock.try_lock());
  lock.unlock();
}

BOOST_AUTO_TEST_CASE(a_condition_variable_waits_with_it) {
  Mutex lock;
  std::condition_variable_any changed;
  bool ready = false;
  std::thread other([&] {
    const ScopedLock guard(lock);
    ready = true;
    changed.notify_all();
  });
  lock.lock();
  while (!ready) changed.wait(lock);
  lock.unlock();
  other.join();
  BOOST_CHECK(ready);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl
