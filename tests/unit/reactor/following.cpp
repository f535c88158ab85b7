// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Several threads wait on one reactor: which of them leads.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/reactor/bell.h"

namespace udapl::test {

namespace {

// A thread that waits for each ring of its own bell.
class Waiter {
 public:
  explicit Waiter(Reactor& reactor) : reactor_(reactor), bell(reactor) {
    bell.word = &word_;
    thread_ = std::thread([this] { run(); });
  }
  ~Waiter() {
    stop_ = true;
    word_.signal();
    thread_.join();
    bell.word = nullptr;
    reactor_.quiesce(bell);  // its handler may be about to signal the word
  }
  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }

 private:
  void run() {
    while (!stop_) {
      const auto seen = word_.value();
      if (stop_) return;
      answered = bell.rung.load();
      reactor_.block(word_, seen, within(kPatience));
    }
  }

  Reactor& reactor_;
  WaitWord word_;
  std::atomic<bool> stop_{false};
  std::thread thread_;

 public:
  Bell bell;
  std::atomic<int> answered{0};  // the rings that it has seen
};

// Rings `times` times, each time once the thread has seen the ring before, and returns how many
// of these it has served itself.
int served_by_itself(Waiter& waiter, int times) {
  int count = 0;
  for (int i = 0; i != times; ++i) {
    const int before = waiter.bell.rung;
    waiter.bell.ring();
    while (waiter.answered <= before) std::this_thread::yield();
    if (waiter.bell.thread.load() == waiter.id()) ++count;
  }
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(followers)

using Whom = Followers::Whom;

BOOST_AUTO_TEST_CASE(last_follower_that_still_waits_is_nominated) {
  Followers followers;
  followers.nominate(Whom::kAny);
  WaitWord first;
  WaitWord second;
  WaitWord third;
  {
    Followers::Follower one(followers, first, first.value());
    Followers::Follower two(followers, second, second.value());
    Followers::Follower three(followers, third, third.value());
    BOOST_TEST(followers.any());
    third.signal();
    followers.nominate(Whom::kNotIdle);
    followers.nominate(Whom::kNotIdle);  // one is on its way
    BOOST_TEST(first.value() == 0U);
    BOOST_TEST(second.value() == 1U);
    BOOST_TEST(third.value() == 1U);
    BOOST_TEST(two.leave() == 1U);
    BOOST_TEST(three.leave() == 0U);
    followers.nominate(Whom::kNotIdle);
    BOOST_TEST(one.leave() == 1U);
  }
  BOOST_TEST(!followers.any());
}

BOOST_AUTO_TEST_CASE(idle_followers_are_nominated_only_if_any_will_do) {
  Followers followers;
  WaitWord words[3];
  Followers::Follower waits_long(followers, words[0], 0);
  Followers::Term term(followers);
  for (std::uint32_t i = 1; i != 4; ++i) {
    Followers::Follower served(followers, words[1], words[1].value());
    words[1].signal();
    served.leave();
    BOOST_TEST(term.served() == i);
  }
  term.make_way();
  Followers::Follower former_leader(followers, words[2], 0, true);
  followers.nominate(Whom::kNotIdle);
  BOOST_TEST(words[0].value() + words[2].value() == 0U);
  Followers::Follower waits_again(followers, words[1], words[1].value());
  followers.nominate(Whom::kNotIdle);
  BOOST_TEST(waits_again.leave() == 4U);
  followers.nominate(Whom::kAny);
  BOOST_TEST(words[0].value() + words[2].value() == 1U);
  BOOST_TEST(term.served() == 3U);  // a nomination serves none
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(reactor_following)

// Otherwise each of its events would wake two threads.
BOOST_AUTO_TEST_CASE(thread_that_waits_often_leads_in_place_of_idle_ones) {
  constexpr int kRounds = 4000;
  const auto reactor = make_reactor();
  std::vector<std::unique_ptr<Waiter>> idle;
  for (int i = 0; i != 4; ++i) {
    idle.push_back(std::make_unique<Waiter>(*reactor));
    std::this_thread::sleep_for(2ms);
  }
  Waiter busy(*reactor);
  // An idle thread leads for some rounds when the busy one was not given a processor for long.
  BOOST_TEST(served_by_itself(busy, kRounds) > kRounds / 4);
}

// Whether or not the thread that has made it wait comes back.
BOOST_AUTO_TEST_CASE(idle_thread_is_served_while_others_work) {
  const auto reactor = make_reactor();
  Waiter idle(*reactor);
  auto busy = std::make_unique<Waiter>(*reactor);
  for (int round = 1; round <= 50; ++round) {
    served_by_itself(*busy, 20);
    if (round % 2 == 0) busy = std::make_unique<Waiter>(*reactor);
    idle.bell.ring();
    BOOST_REQUIRE(eventually([&] { return idle.answered == round; }));
  }
}

// No wake-up is lost: all threads wait, and some of them often.
BOOST_AUTO_TEST_CASE(all_are_served_if_some_wait_often) {
  constexpr int kThreads = 6;
  const auto reactor = make_reactor();
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i != kThreads; ++i) waiters.push_back(std::make_unique<Waiter>(*reactor));
  for (int round = 1; round <= 3000; ++round) {
    const int pick = round % 64 == 0 ? round / 64 % kThreads : round % (1 + round / 1000);
    Waiter& waiter = *waiters[static_cast<std::size_t>(pick)];
    const int before = waiter.bell.rung;
    waiter.bell.ring();
    if (round % 3 != 0) BOOST_REQUIRE(eventually([&] { return waiter.answered > before; }));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
