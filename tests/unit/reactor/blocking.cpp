// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: which thread drives while threads block and poll.
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "common/tracing/trace.h"
#include "tests/unit/reactor/bell.h"

namespace udapl::test {

BOOST_AUTO_TEST_SUITE(reactor_blocking)

BOOST_AUTO_TEST_CASE(blocked_thread_serves_its_own_event) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  WaitWord word;
  bell.word = &word;
  int here = 0;
  for (int round = 1; round <= 50; ++round) {
    std::thread ringer([&] {
      std::this_thread::sleep_for(1ms);
      bell.ring();
    });
    while (bell.rung != round)
      BOOST_REQUIRE(
          (reactor->block(word, word.value(), within(kPatience)) != WaitResult::kTimedOut));
    here += bell.thread.load() == std::this_thread::get_id() ? 1 : 0;
    ringer.join();
  }
  BOOST_TEST(here > 10);
}

BOOST_AUTO_TEST_CASE(block_ends_by_word_deadline_and_signal) {
  const auto reactor = make_reactor();
  WaitWord word;
  word.signal();
  BOOST_TEST((reactor->block(word, 0, std::nullopt) == WaitResult::kChanged));
  const auto start = Clock::now();
  BOOST_TEST((block_out(*reactor, word, start + 5ms) == WaitResult::kTimedOut));
  BOOST_TEST((Clock::now() >= start + 5ms));
  BOOST_TEST((block_out(*reactor, word, start) == WaitResult::kTimedOut));

  std::thread changer([&] {
    std::this_thread::sleep_for(10ms);
    word.signal();  // invisible to the reactor
  });
  const auto called = word.value();
  BOOST_TEST((reactor->block(word, called, within(kPatience)) == WaitResult::kChanged));
  BOOST_TEST(word.value() != called);
  changer.join();

  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> out{false};
  const pthread_t self = ::pthread_self();
  std::thread signaller([&] {
    while (!out) {
      std::this_thread::sleep_for(2ms);
      ::pthread_kill(self, SIGUSR1);
    }
  });
  const WaitResult result = block_out(*reactor, word, Clock::now() + kPatience);
  out = true;
  signaller.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  BOOST_TEST((result == WaitResult::kInterrupted));
}

#ifndef __SANITIZE_THREAD__  // threads in a forked child confuse TSan
// Stops a child, which has no signal handlers, while it waits again and again for up to `limit`.
// Returns its status: 0, or 1 after a wait that was interrupted.
int status_of_stopped_waits(Clock::duration limit) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
    auto made = Reactor::create("reactor-test");
    if (!made.ok()) ::_exit(2);
    WaitWord word;
    std::thread waker([&] {
      char byte = 0;
      (void)!::read(ends[0], &byte, 1);  // also ends if the parent dies
      word.signal();
    });
    waker.detach();
    while (word.value() == 0)
      if ((*made)->block(word, 0, within(limit)) == WaitResult::kInterrupted) ::_exit(1);
    ::_exit(0);
  }
  ::close(ends[0]);
  int status = 0;
  for (int stops = 0; stops < 20; ++stops) {
    std::this_thread::sleep_for(stops == 0 ? 300ms : 10ms);
    ::kill(child, SIGSTOP);
    ::waitpid(child, &status, WUNTRACED);
    if (!WIFSTOPPED(status)) break;  // it has ended
    ::kill(child, SIGCONT);
  }
  ::close(ends[1]);
  if (WIFSTOPPED(status)) ::waitpid(child, &status, 0);
  BOOST_TEST(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// A process that is stopped and continues, as by Ctrl-Z, has not handled a signal.
BOOST_AUTO_TEST_CASE(a_stop_does_not_interrupt) {
  BOOST_TEST(status_of_stopped_waits(kPatience) == 0);
}

BOOST_AUTO_TEST_CASE(a_stop_does_not_interrupt_short_waits) {
  BOOST_TEST(status_of_stopped_waits(2ms) == 0);
}
#endif

// A thread that waits briefly and often, and does other things in between, does not keep the
// service thread away.
BOOST_AUTO_TEST_CASE(waits_in_vain_do_not_grow_the_lease) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  WaitWord word;
  int soon = 0;
  for (int round = 1; round <= 20; ++round) {
    for (int i = 0; i < 400; ++i) (void)block_out(*reactor, word, Clock::now());
    bell.ring();
    std::this_thread::sleep_for(5ms);
    soon += bell.rung == round ? 1 : 0;
    BOOST_REQUIRE(eventually([&] { return bell.rung == round; }));
  }
  BOOST_TEST(soon > 0);
}

// No wake-up is lost, whichever thread leads: every thread waits for each ring of its own bell.
BOOST_AUTO_TEST_CASE(leadership_passes_between_threads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  const auto reactor = make_reactor();
  struct Place {
    explicit Place(Reactor& reactor) : bell(reactor) { bell.word = &word; }
    WaitWord word;
    std::atomic<int> seen{0};
    Bell bell;
  };
  std::vector<std::unique_ptr<Place>> places;
  for (int i = 0; i < kThreads; ++i) places.push_back(std::make_unique<Place>(*reactor));
  std::atomic<int> timeouts{0};
  std::vector<std::thread> threads;
  for (auto& place : places)
    threads.emplace_back([&reactor, &timeouts, place = place.get()] {
      for (int round = 1; round <= kRounds; ++round) {
        while (true) {
          const auto seen = place->word.value();
          if (place->bell.rung >= round) break;
          if (reactor->block(place->word, seen, within(kPatience)) == WaitResult::kTimedOut) {
            ++timeouts;
            break;
          }
        }
        if (round % 7 == 0) reactor->progress();
        if (round % 50 == 0) std::this_thread::sleep_for(3ms);  // longer than a lease
        place->seen = round;
      }
    });
  for (int round = 1; round <= kRounds; ++round)
    for (auto& place : places) {
      BOOST_REQUIRE(eventually([&] { return place->seen >= round - 1; }));
      place->bell.ring();
    }
  for (auto& thread : threads) thread.join();
  BOOST_TEST(timeouts == 0);
}

BOOST_AUTO_TEST_CASE(many_threads_post_poll_block_and_destroy) {
  const auto reactor = make_reactor();
  std::atomic<bool> stop{false};
  std::atomic<int> lost{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      unsigned step = static_cast<unsigned>(i);
      while (!stop) {
        struct Waker {
          void call() noexcept { word.signal(); }
          WaitWord word;
        } waker;
        Timer timer(*reactor, Call::to<&Waker::call>(&waker));
        Deferred deferred(*reactor, Call::to<&Waker::call>(&waker));
        switch (++step % 4) {
          case 0:
            timer.start_after(50us);
            break;
          case 1:
            deferred.post();
            break;
          case 2:
            timer.start_after(0us);
            deferred.post();
            continue;  // destroyed while it waits or runs
          default:
            reactor->progress();
            deferred.post();
        }
        while (waker.word.value() == 0)
          if (reactor->block(waker.word, 0, within(kPatience)) == WaitResult::kTimedOut) {
            ++lost;
            return;
          }
      }
    });
  std::this_thread::sleep_for(400ms);
  stop = true;
  for (auto& thread : threads) thread.join();
  BOOST_TEST(lost == 0);
}

// ---- every thread is served --------------------------------------------------------------------

// A wait with a timeout of (nearly) zero drives the reactor once, as a poll does.
BOOST_AUTO_TEST_CASE(waits_without_time_drive) {
  for (const Clock::duration time : {Clock::duration(0), Clock::duration(1us)}) {
    const auto reactor = make_reactor();
    Bell bell(*reactor);
    WaitWord word;
    bell.word = &word;
    int here = 0;
    for (int round = 1; round <= 50; ++round) {
      bell.ring();
      const auto end = Clock::now() + kPatience;
      while (bell.rung < round && Clock::now() < end)
        reactor->block(word, word.value(), Clock::now() + time);
      BOOST_REQUIRE_EQUAL(bell.rung.load(), round);
      here += bell.thread.load() == std::this_thread::get_id() ? 1 : 0;
    }
    BOOST_TEST(here > 5);
  }
}

BOOST_AUTO_TEST_CASE(service_thread_takes_over_from_who_stops) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  WaitWord word;
  for (int round = 1; round <= 100; ++round) {
    if (round % 3 != 0)
      for (int i = 0; i < 100; ++i) reactor->poll();
    if (round % 3 != 1) block_out(*reactor, word, Clock::now() + 10us);
    bell.ring();
    BOOST_REQUIRE(eventually([&] { return bell.rung == round; }));
  }
}

BOOST_AUTO_TEST_CASE(rare_turns_in_a_row_of_empty_polls_lose_nothing) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  for (int round = 1; round <= 300; ++round) {
    for (int i = 0; i < round; ++i) reactor->poll();
    bell.ring();
    for (int i = 0; bell.rung < round && i < 1000000; ++i) reactor->poll();
    BOOST_REQUIRE_EQUAL(bell.rung.load(), round);
  }
}

// The guard's wake-up is not lost if another thread takes the driving role before the guard is
// awake.
BOOST_AUTO_TEST_CASE(guard_is_notified_although_a_poller_was_faster) {
  for (int round = 0; round < 100; ++round) {
    const auto reactor = make_reactor();
    Counter counter;
    Timer timer(*reactor, Call::to<&Counter::call>(&counter));
    Deferred deferred(*reactor, Call::to<&Counter::call>(&counter));
    BOOST_REQUIRE(eventually([] { return service_sleeps() >= 1; }));
    timer.start_after(1h);  // the guard would sleep too long
    reactor->progress();
    deferred.post();
    BOOST_REQUIRE(eventually([&] { return counter.ended == 1; }));
  }
}

// If a driving thread starts a timer and then stops driving, the guard fires the timer.
BOOST_AUTO_TEST_CASE(guard_fires_timers_that_others_started) {
  for (int round = 0; round < 20; ++round) {
    const auto reactor = make_reactor();
    Counter counter;
    Timer timer(*reactor, Call::to<&Counter::call>(&counter));
    struct Starter {
      void call() noexcept { timer.start_after(2ms); }
      Timer& timer;
    } starter{timer};
    Deferred deferred(*reactor, Call::to<&Starter::call>(&starter));
    BOOST_REQUIRE(eventually([] { return service_sleeps() >= 1; }));
    deferred.post_for_poll();
    reactor->progress();
    BOOST_REQUIRE(eventually([&] { return counter.ended == 1; }));
  }
}

// A thread that is cancelled while it waits completes the call first, so that other threads can
// take the driving role.
BOOST_AUTO_TEST_CASE(cancelled_thread_gives_the_role_back) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  struct Waiter {
    Reactor& reactor;
    WaitWord word;
    std::atomic<bool> begun{false};
  } waiter{*reactor, {}, {}};
  pthread_t thread{};
  const auto entry = [](void* argument) -> void* {
    auto& self = *static_cast<Waiter*>(argument);
    self.begun = true;
    self.reactor.block(self.word, 0, std::nullopt);
    for (;;) ::pause();  // the cancellation point
  };
  BOOST_REQUIRE_EQUAL(::pthread_create(&thread, nullptr, entry, &waiter), 0);
  BOOST_REQUIRE(eventually([&] { return waiter.begun.load(); }));
  std::this_thread::sleep_for(5ms);
  BOOST_TEST(::pthread_cancel(thread) == 0);
  waiter.word.signal();
  void* result = nullptr;
  BOOST_TEST(::pthread_join(thread, &result) == 0);
  BOOST_TEST((result == PTHREAD_CANCELED));
  bell.ring();
  BOOST_TEST(eventually([&] { return bell.rung == 1; }));
}

// Regression: trace records of handlers, timers and deferred calls named the object on which the
// driving thread waited.
BOOST_AUTO_TEST_CASE(callbacks_are_not_about_what_the_driving_thread_waits_for) {
  struct Called {
    void call() noexcept {
      if (trace::this_thread().subject != nullptr) ++wrong;
      if (std::this_thread::get_id() == driver) ++here;
      word.signal();
    }
    const std::thread::id driver = std::this_thread::get_id();
    std::atomic<int> here{0};
    std::atomic<int> wrong{0};
    WaitWord word;
  } called;
  struct Ready final : Handler {
    explicit Ready(Called& to) : called(to) {}
    void on_ready(std::uint32_t) noexcept override {
      std::uint64_t value = 0;
      if (::read(fd.get(), &value, sizeof value) == sizeof value) called.call();
    }
    Called& called;
    Fd fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  } ready(called);
  const auto reactor = make_reactor();
  Timer timer(*reactor, Call::to<&Called::call>(&called));
  Deferred deferred(*reactor, Call::to<&Called::call>(&called));
  BOOST_REQUIRE(reactor->watch(ready.fd.get(), EPOLLIN, ready).ok());
  const int waited_for = 0;
  const trace::About about(&waited_for);
  for (int kind = 0; kind < 3; ++kind) {
    called.here = 0;
    for (const auto end = Clock::now() + kPatience; called.here < 20 && Clock::now() < end;) {
      const auto before = called.word.value();
      const std::uint64_t one = 1;
      if (kind == 0) timer.start(Clock::now() + 1ms);
      if (kind == 1) deferred.post();
      if (kind == 2) BOOST_REQUIRE_EQUAL(::write(ready.fd.get(), &one, sizeof one), sizeof one);
      while (called.word.value() == before) reactor->block(called.word, before, within(kPatience));
    }
    BOOST_TEST(called.here >= 20);
  }
  BOOST_TEST(called.wrong == 0);
  reactor->unwatch(ready.fd.get(), ready);
  reactor->quiesce(ready);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
