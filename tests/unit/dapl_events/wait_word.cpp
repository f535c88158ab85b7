// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Changing a word and waking the threads that sleep on it are two steps.
#include "common/wait_word.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace udapl::test {

namespace {

using namespace std::chrono_literals;

// A thread that waits for a change of the word once.
class Sleeper {
 public:
  Sleeper(WaitWord& word, const Deadline& deadline)
      : thread_([this, &word, seen = word.value(), deadline] {
          id_ = ::gettid();
          result = word.wait(seen, deadline);
          ended = true;
        }) {}
  ~Sleeper() { thread_.join(); }

  // Returns once it is asleep. All that it sleeps for is the change.
  void await_sleep() const {
    for (;; std::this_thread::sleep_for(100us)) {
      if (id_ == 0) continue;
      std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
      std::string stat;
      std::getline(file, stat);
      if (ended || stat.find(") S ") != std::string::npos) return;
    }
  }

  std::atomic<bool> ended{false};
  std::atomic<WaitResult> result{WaitResult::kInterrupted};

 private:
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(wait_word)

BOOST_AUTO_TEST_CASE(sleeper_wakes_when_the_wakeup_ends) {
  WaitWord word;
  Sleeper sleeper(word, std::nullopt);
  sleeper.await_sleep();
  {
    const WaitWord::Wakeup wakeup = word.change();
    BOOST_TEST(word.value() == 1U);
    std::this_thread::sleep_for(5ms);
    BOOST_TEST(!sleeper.ended);
  }
  while (!sleeper.ended) std::this_thread::yield();
  BOOST_TEST((sleeper.result == WaitResult::kChanged));
}

BOOST_AUTO_TEST_CASE(assigned_wakeup_wakes_those_of_the_former_one) {
  WaitWord first;
  WaitWord second;
  Sleeper sleeper(first, std::nullopt);
  sleeper.await_sleep();
  WaitWord::Wakeup wakeup = first.change();
  wakeup = second.change();
  while (!sleeper.ended) std::this_thread::yield();
  BOOST_TEST((sleeper.result == WaitResult::kChanged));
}

// As when an object is freed by a thread that was woken by something else.
BOOST_AUTO_TEST_CASE(word_may_be_gone_when_the_wakeup_ends) {
  auto word = std::make_unique<WaitWord>();
  WaitWord::Wakeup wakeup;
  {
    Sleeper sleeper(*word, Clock::now() + 30ms);
    sleeper.await_sleep();
    wakeup = word->change();
  }
  word.reset();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
