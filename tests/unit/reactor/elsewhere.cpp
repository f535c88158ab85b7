// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A thread that drives several reactors in turn: while it sleeps in one, it serves those that it
// has left.
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/fork.h"
#include "tests/child/in_child.h"
#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/mailbox.h"

namespace udapl::test {

namespace {

// Waits in `here` until the bell, which signals the word, has been rung. The word also changes when
// a follower is nominated.
template <class Begin>
void wait_until_rung(Reactor& here, WaitWord& word, const Bell& bell, Begin begin) {
  const int before = bell.rung;
  begin();
  while (true) {
    const std::uint32_t seen = word.value();
    if (bell.rung != before) return;
    here.block(word, seen, within(kPatience));
  }
}

// Makes so many waits that the lease lasts for 4 ms at least. The service thread is then parked,
// and leaves the reactor to the calling thread.
void wait_often(Reactor& reactor) {
  Bell bell(reactor);
  WaitWord word;
  bell.word = &word;
  for (int i = 0; i != 128; ++i) wait_until_rung(reactor, word, bell, [&] { bell.ring(); });
  bell.word = nullptr;
  reactor.quiesce(bell);
}

// Waits in `here` until the event that begin() causes in another reactor has signalled the word.
template <class Begin>
void wait_until_signalled(Reactor& here, WaitWord& word, Begin begin) {
  const std::uint32_t seen = word.value();
  begin();
  while (word.value() == seen) here.block(word, seen, within(kPatience));
}

struct Signaller {
  void signal() noexcept {
    thread = std::this_thread::get_id();
    word.signal();
  }
  WaitWord word;
  std::atomic<std::thread::id> thread{};
};

// Returns whether an attempt succeeds. Some may not, because the thread was kept from its processor
// for longer than a lease.
template <class Attempt>
bool succeeds_once(Attempt attempt) {
  constexpr int kTries = 200;
  for (int i = 0; i != kTries; ++i)
    if (attempt()) return true;
  return false;
}

// Rings while the thread that makes it probably sleeps.
class LateRing {
 public:
  explicit LateRing(Bell& bell)
      : thread_([&bell] {
          std::this_thread::sleep_for(1ms);
          bell.ring();
        }) {}
  ~LateRing() { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(reactor_elsewhere)

BOOST_AUTO_TEST_CASE(what_has_happened_before_the_sleep_is_served) {
  const auto left = make_reactor();
  const auto here = make_reactor();
  Bell bell(*left);
  BOOST_TEST(succeeds_once([&] {
    wait_often(*left);
    WaitWord word;
    bell.word = &word;
    wait_until_signalled(*here, word, [&] { bell.ring(); });
    bell.word = nullptr;
    left->quiesce(bell);
    return bell.thread.load() == std::this_thread::get_id();
  }));
}

BOOST_AUTO_TEST_CASE(what_happens_during_the_sleep_is_served) {
  std::vector<std::unique_ptr<Reactor>> left;
  std::vector<std::unique_ptr<Bell>> bells;
  for (int i = 0; i != 2; ++i) {
    left.push_back(make_reactor());
    bells.push_back(std::make_unique<Bell>(*left.back()));
  }
  const auto here = make_reactor();
  for (std::size_t place = 0; place != left.size(); ++place) {
    Bell& bell = *bells[place];
    BOOST_TEST(succeeds_once([&] {
      for (const auto& reactor : left) wait_often(*reactor);
      WaitWord word;
      bell.word = &word;
      {
        std::optional<LateRing> ring;
        wait_until_signalled(*here, word, [&] { ring.emplace(bell); });
      }
      bell.word = nullptr;
      left[place]->quiesce(bell);
      return bell.thread.load() == std::this_thread::get_id();
    }));
  }
}

// A call that is left to the next poll is not left to the end of the lease.
BOOST_AUTO_TEST_CASE(calls_that_wait_for_a_poll_run) {
  const auto left = make_reactor();
  const auto here = make_reactor();
  Signaller signaller;
  Deferred call(*left, Call::to<&Signaller::signal>(&signaller));
  BOOST_TEST(succeeds_once([&] {
    wait_often(*left);
    wait_until_signalled(*here, signaller.word, [&] { call.post_for_poll(); });
    return signaller.thread.load() == std::this_thread::get_id();
  }));
}

BOOST_AUTO_TEST_CASE(pollers_rest) {
  const auto left = make_reactor();
  const auto here = make_reactor();
  WaitWord word;
  Mailbox box(*left);
  box.word = &word;
  box.show_sign();
  BOOST_TEST(succeeds_once([&] {
    wait_often(*left);
    wait_until_signalled(*left, word, [&] { box.put(); });  // from now on it is awake
    const bool awake = !box.resting;
    const long bells = box.bells;
    std::thread peer;
    wait_until_signalled(*here, word, [&] {
      peer = std::thread([&] {
        std::this_thread::sleep_for(1ms);
        box.put();
      });
    });
    peer.join();
    return awake && box.bells != bells;
  }));
}

// One that cannot rest because it has input again is asked until it can.
BOOST_AUTO_TEST_CASE(pollers_with_input_are_served) {
  const auto left = make_reactor();
  const auto here = make_reactor();
  WaitWord word;
  Mailbox box(*left);
  box.word = &word;
  for (int i = 0; i != 20; ++i) {
    wait_often(*left);
    wait_until_signalled(*left, word, [&] { box.put(); });
    wait_until_signalled(*here, word, [&] { box.put(); });
  }
  BOOST_TEST(box.taken == 40);
}

// A thread that follows sleeps on a word: it cannot watch what it has left.
BOOST_AUTO_TEST_CASE(followers_leave_it_to_the_service_thread) {
  const auto left = make_reactor();
  const auto here = make_reactor();
  Bell bell(*left);
  std::atomic<bool> done{false};
  WaitWord idle;
  std::thread leader([&] {
    while (!done) here->block(idle, idle.value(), within(kPatience));
  });
  for (int i = 0; i != 20; ++i) {
    wait_often(*left);
    WaitWord word;
    bell.word = &word;
    {
      std::optional<LateRing> ring;
      wait_until_rung(*here, word, bell, [&] { ring.emplace(bell); });
    }
    bell.word = nullptr;
    left->quiesce(bell);
  }
  BOOST_TEST(bell.rung == 20);
  done = true;
  idle.signal();
  leader.join();
}

// Each of several threads waits in one reactor after the other, for what happens in the next one.
BOOST_AUTO_TEST_CASE(several_threads_in_several_reactors) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kReactors = 3;
  std::vector<std::unique_ptr<Reactor>> reactors;
  for (std::size_t i = 0; i != kReactors; ++i) reactors.push_back(make_reactor());
  std::array<WaitWord, kThreads> words;
  std::vector<std::unique_ptr<Bell>> bells;  // one of each thread in each reactor
  for (std::size_t i = 0; i != kThreads * kReactors; ++i) {
    bells.push_back(std::make_unique<Bell>(*reactors[i % kReactors]));
    bells.back()->word = &words[i / kReactors];
  }
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread != kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (std::size_t i = thread; i != thread + 300; ++i) {
        Bell& bell = *bells[thread * kReactors + (i + 1) % kReactors];
        wait_until_rung(*reactors[i % kReactors], words[thread], bell, [&] { bell.ring(); });
      }
    });
  for (std::thread& thread : threads) thread.join();
  int rung = 0;
  for (const auto& bell : bells) rung += bell->rung;
  BOOST_TEST(rung == kThreads * 300);
  bells.clear();  // their handlers may be about to signal a word
}

BOOST_AUTO_TEST_CASE(it_may_have_been_destroyed) {
  const auto here = make_reactor();
  for (int i = 0; i != 20; ++i) {
    auto left = make_reactor();
    wait_often(*left);
    if (i % 2 == 0) left.reset();
    std::thread closer([&] { left.reset(); });
    WaitWord word;
    BOOST_TEST((block_out(*here, word, within(2ms)) == WaitResult::kTimedOut));
    closer.join();
  }
}

#ifndef __SANITIZE_THREAD__  // threads in a forked child confuse TSan
BOOST_AUTO_TEST_CASE(a_child_leaves_its_parent_alone) {
  static bool watched = forks::watch([]() noexcept {});
  BOOST_REQUIRE(watched);
  const auto left = make_reactor();
  Bell bell(*left);
  wait_often(*left);
  in_child([&] {
    bell.ring();
    auto here = Reactor::create("reactor-test");
    if (!here.ok()) return 1;
    WaitWord word;
    block_out(**here, word, within(2ms));
    return bell.rung == 0 ? 0 : 2;
  });
}
#endif

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
