// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: who drives when, timers, deferred calls, removal while running, idleness.
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "providers/soft/io/sink_gate.h"
#include "tests/unit/soft_io/support.h"

namespace udapl::soft::test {
namespace {

// An eventfd that is watched; counts and empties.
class Bell final : public Handler {
 public:
  explicit Bell(Reactor& reactor) : reactor_(reactor), fd_(::eventfd(0, EFD_NONBLOCK)) {
    BOOST_REQUIRE(reactor_.watch(fd_.get(), EPOLLIN, *this).ok());
  }
  ~Bell() {
    reactor_.unwatch(fd_.get(), *this);
    reactor_.quiesce(*this);
  }
  void ring() {
    const std::uint64_t one = 1;
    if (::write(fd_.get(), &one, sizeof one) != sizeof one) std::abort();  // any thread
  }
  void on_ready(std::uint32_t) noexcept override {
    std::uint64_t value = 0;
    [[maybe_unused]] const auto got = ::read(fd_.get(), &value, sizeof value);
    thread = std::this_thread::get_id();
    ++rung;
    if (word != nullptr) word->signal();
  }

  std::atomic<int> rung{0};
  std::atomic<std::thread::id> thread{};
  WaitWord* word = nullptr;

 private:
  Reactor& reactor_;
  Fd fd_;
};

// Counts its calls; can hold a call up until it is let go.
class Counter {
 public:
  void call() noexcept {
    thread = std::this_thread::get_id();
    ++begun;
    while (held) std::this_thread::sleep_for(100us);
    ++ended;
  }
  std::atomic<bool> held{false};
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  std::atomic<std::thread::id> thread{};
};

// Times that the service thread of the only reactor of this process went to sleep so far.
long service_sleeps() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "udapl-soft") continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("voluntary_ctxt_switches:"))
        return std::stol(line.substr(line.find(':') + 1));
  }
  BOOST_FAIL("no service thread");
  return -1;
}

Deadline within(Clock::duration time) { return Clock::now() + time; }

// Blocks on a word that nobody changes; block() may return early without a reason.
WaitResult block_out(Reactor& reactor, WaitWord& word, Clock::time_point deadline) {
  WaitResult result = WaitResult::kChanged;
  while (result == WaitResult::kChanged) result = reactor.block(word, word.value(), deadline);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reactor)

BOOST_AUTO_TEST_CASE(service_thread_serves_descriptors) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  bell.ring();
  BOOST_TEST(eventually([&] { return bell.rung == 1; }));
  BOOST_TEST((bell.thread.load() != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(service_thread_blocks_signals_and_has_a_name) {
  const auto reactor = make_reactor();
  BOOST_TEST(service_sleeps() >= 0);
  std::string blocked;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    std::ifstream status(task.path() / "status");
    for (std::string line; name == "udapl-soft" && std::getline(status, line);)
      if (line.starts_with("SigBlk:")) blocked = line.substr(line.find_first_not_of(" \t", 7));
  }
  BOOST_REQUIRE(!blocked.empty());
  const auto mask = std::stoull(blocked, nullptr, 16);
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGPIPE})
    BOOST_TEST((mask >> (signal - 1) & 1) == 1U);
}

BOOST_AUTO_TEST_CASE(unwatched_descriptor_is_not_reported) {
  const auto reactor = make_reactor();
  auto bell = std::make_unique<Bell>(*reactor);
  bell.reset();
  Bell other(*reactor);  // takes over the slot
  other.ring();
  BOOST_TEST(eventually([&] { return other.rung == 1; }));
}

BOOST_AUTO_TEST_CASE(polling_thread_takes_over_from_the_service_thread) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  int here = 0;
  for (int round = 1; round <= 200; ++round) {
    bell.ring();
    const auto end = Clock::now() + kPatience;
    while (bell.rung != round && Clock::now() < end) reactor->progress();
    BOOST_REQUIRE_EQUAL(bell.rung.load(), round);
    here += bell.thread.load() == std::this_thread::get_id() ? 1 : 0;
  }
  BOOST_TEST(here > 20);  // nearly all, on a quiet machine
  // And back again when the polling ends.
  bell.ring();
  BOOST_TEST(eventually([&] { return bell.rung == 201; }));
}

BOOST_AUTO_TEST_CASE(progress_from_a_call_of_the_reactor_returns) {
  const auto reactor = make_reactor();
  struct Nested {
    void call() noexcept {
      inside = reactor.driven_here();
      reactor.progress();
      done = true;
    }
    Reactor& reactor;
    std::atomic<bool> inside{false};
    std::atomic<bool> done{false};
  } nested{*reactor};
  Deferred deferred(*reactor, Call::to<&Nested::call>(&nested));
  deferred.post();
  BOOST_TEST(eventually([&] { return nested.done.load(); }));
  BOOST_TEST(nested.inside);
  BOOST_TEST(!reactor->driven_here());
}

// ---- timers ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(timers_fire_in_order_and_never_early) {
  const auto reactor = make_reactor();
  struct Shot {
    void fire() noexcept {
      at = Clock::now();
      order = ++*count;
    }
    std::atomic<int>* count = nullptr;
    Clock::time_point at;
    std::atomic<int> order{0};
  };
  std::atomic<int> count{0};
  std::array<Shot, 5> shots;
  std::array<std::optional<Timer>, 5> timers;
  const std::array<int, 5> delays{40, 10, 30, 20, 50};
  const auto start = Clock::now();
  for (std::size_t i = 0; i < shots.size(); ++i) {
    shots[i].count = &count;
    timers[i].emplace(*reactor, Call::to<&Shot::fire>(&shots[i]));
    timers[i]->start(start + std::chrono::milliseconds(delays[i]));
  }
  BOOST_TEST(eventually([&] { return count == 5; }));
  for (std::size_t i = 0; i < shots.size(); ++i) {
    BOOST_TEST(shots[i].order * 10 == (delays[i] / 10) * 10);
    BOOST_TEST((shots[i].at >= start + std::chrono::milliseconds(delays[i])));
  }
}

BOOST_AUTO_TEST_CASE(timer_stops_restarts_and_goes) {
  const auto reactor = make_reactor();
  Counter stopped;
  Counter moved;
  Counter gone;
  Timer never(*reactor, Call::to<&Counter::call>(&stopped));
  Timer late(*reactor, Call::to<&Counter::call>(&moved));
  {
    Timer dies(*reactor, Call::to<&Counter::call>(&gone));
    dies.start_after(20ms);
  }
  never.start_after(20ms);
  never.stop();
  never.stop();
  late.start_after(1h);
  late.start_after(30ms);  // the service thread sleeps for an hour: it has to be woken
  BOOST_TEST(eventually([&] { return moved.ended == 1; }, 5s));
  std::this_thread::sleep_for(20ms);
  BOOST_TEST(stopped.begun == 0);
  BOOST_TEST(gone.begun == 0);
  BOOST_TEST(moved.begun == 1);
}

BOOST_AUTO_TEST_CASE(timer_fires_while_the_application_polls_or_blocks) {
  const auto reactor = make_reactor();
  Counter counter;
  Timer timer(*reactor, Call::to<&Counter::call>(&counter));
  timer.start_after(5ms);
  const auto end = Clock::now() + kPatience;
  while (counter.ended == 0 && Clock::now() < end) reactor->progress();
  BOOST_TEST(counter.ended == 1);
  WaitWord word;
  timer.start_after(5ms);
  BOOST_TEST((block_out(*reactor, word, Clock::now() + 60ms) == WaitResult::kTimedOut));
  BOOST_TEST(counter.ended == 2);
}

BOOST_AUTO_TEST_CASE(timer_destructor_waits_for_its_call) {
  const auto reactor = make_reactor();
  Counter counter;
  counter.held = true;
  auto timer = std::make_unique<Timer>(*reactor, Call::to<&Counter::call>(&counter));
  timer->start_after(0ms);
  BOOST_REQUIRE(eventually([&] { return counter.begun == 1; }));
  std::thread release([&] {
    std::this_thread::sleep_for(10ms);
    counter.held = false;
  });
  timer.reset();
  BOOST_TEST(counter.ended == 1);
  release.join();
}

// ---- deferred calls and sink gates -------------------------------------------------------------

BOOST_AUTO_TEST_CASE(deferred_call_comes_once_for_many_posts) {
  const auto reactor = make_reactor();
  Counter blocker;
  blocker.held = true;
  Counter counter;
  Deferred hold(*reactor, Call::to<&Counter::call>(&blocker));
  Deferred deferred(*reactor, Call::to<&Counter::call>(&counter));
  hold.post();
  BOOST_REQUIRE(eventually([&] { return blocker.begun == 1; }));
  for (int i = 0; i < 10; ++i) deferred.post();
  blocker.held = false;
  BOOST_TEST(eventually([&] { return counter.ended == 1; }));
  std::this_thread::sleep_for(5ms);
  BOOST_TEST(counter.begun == 1);
}

BOOST_AUTO_TEST_CASE(deferred_call_is_made_wherever_the_driver_is) {
  const auto reactor = make_reactor();
  Counter counter;
  Deferred deferred(*reactor, Call::to<&Counter::call>(&counter));
  int expected = 0;
  // The service thread asleep, parked behind a polling thread, and behind a blocked one.
  deferred.post();
  BOOST_TEST(eventually([&] { return counter.ended == expected + 1; }));
  ++expected;
  for (int i = 0; i < 100; ++i) {
    reactor->progress();
    deferred.post();
    BOOST_REQUIRE(eventually([&] { return counter.ended == expected + 1; }));
    ++expected;
  }
  WaitWord word;
  std::atomic<bool> changed{false};
  std::thread blocked([&] {
    while (word.value() == 0) reactor->block(word, 0, within(kPatience));
    changed = true;
  });
  for (int i = 0; i < 100; ++i) {
    deferred.post();
    BOOST_REQUIRE(eventually([&] { return counter.ended == expected + 1; }));
    ++expected;
  }
  word.signal();
  blocked.join();
  BOOST_TEST(changed);
}

BOOST_AUTO_TEST_CASE(cancelled_deferred_call_does_not_come) {
  const auto reactor = make_reactor();
  Counter blocker;
  blocker.held = true;
  Counter counter;
  Deferred hold(*reactor, Call::to<&Counter::call>(&blocker));
  Deferred deferred(*reactor, Call::to<&Counter::call>(&counter));
  hold.post();
  BOOST_REQUIRE(eventually([&] { return blocker.begun == 1; }));
  deferred.post();
  deferred.cancel();
  blocker.held = false;
  Counter last;
  Deferred after(*reactor, Call::to<&Counter::call>(&last));
  after.post();
  BOOST_TEST(eventually([&] { return last.ended == 1; }));
  BOOST_TEST(counter.begun == 0);
}

namespace {

// An object with a gate, as the QP and CQ are.
class Speaker {
 public:
  Speaker(Reactor& reactor, std::vector<unsigned>& said)
      : said_(said), gate(reactor, SinkGate::to<&Speaker::deliver, Speaker>(), this) {}
  void deliver(unsigned call) noexcept {
    ++running;
    while (held) std::this_thread::sleep_for(100us);
    said_.push_back(call);
    --running;
    if (suicidal) delete this;
  }
  std::atomic<bool> held{false};
  std::atomic<int> running{0};
  bool suicidal = false;

 private:
  std::vector<unsigned>& said_;

 public:
  SinkGate gate;
};

}  // namespace

BOOST_AUTO_TEST_CASE(gate_delivers_in_order_and_cancels) {
  const auto reactor = make_reactor();
  std::vector<unsigned> said;
  Speaker speaker(*reactor, said);
  speaker.held = true;
  speaker.gate.post(3);
  BOOST_REQUIRE(eventually([&] { return speaker.running == 1; }));
  speaker.gate.post(7);
  speaker.gate.post(5);
  speaker.gate.post(0);
  speaker.gate.post(6);
  speaker.gate.post(3);
  speaker.gate.cancel(1U << 5 | 1U << 6);
  speaker.held = false;
  WaitWord word;
  BOOST_TEST((block_out(*reactor, word, Clock::now() + 30ms) == WaitResult::kTimedOut));
  speaker.gate.close();
  BOOST_TEST(said == (std::vector<unsigned>{3, 0, 3, 7}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(gate_close_waits_for_the_call_of_another_thread) {
  const auto reactor = make_reactor();
  std::vector<unsigned> said;
  auto speaker = std::make_unique<Speaker>(*reactor, said);
  speaker->held = true;
  speaker->gate.post(1);
  BOOST_REQUIRE(eventually([&] { return speaker->running == 1; }));
  speaker->gate.post(2);
  std::thread release([held = &speaker->held] {
    std::this_thread::sleep_for(10ms);
    *held = false;
  });
  speaker.reset();
  release.join();
  BOOST_TEST(said == std::vector<unsigned>{1}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(object_may_be_destroyed_by_its_own_sink_call) {
  const auto reactor = make_reactor();
  std::vector<unsigned> said;
  for (int i = 0; i < 50; ++i) {
    auto* speaker = new Speaker(*reactor, said);
    speaker->suicidal = true;
    speaker->held = true;
    speaker->gate.post(1);
    BOOST_REQUIRE(eventually([&] { return speaker->running == 1; }));
    speaker->gate.post(2);  // dies with it
    speaker->held = false;
  }
  Counter last;
  Deferred after(*reactor, Call::to<&Counter::call>(&last));
  after.post();
  BOOST_TEST(eventually([&] { return last.ended == 1; }));
  BOOST_TEST(said.size() == 50U);
}

// ---- blocking ----------------------------------------------------------------------------------

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

BOOST_AUTO_TEST_CASE(block_returns_for_a_changed_word_a_deadline_and_a_signal) {
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
    word.signal();  // nothing that the reactor sees
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

// No wake-up is lost whoever leads: every thread waits for its own bell, for each ring anew.
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

// ---- idleness ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(idle_process_makes_no_wake_ups) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  for (int i = 0; i < 1000; ++i) reactor->progress();  // has polled, and stopped
  std::this_thread::sleep_for(50ms);
  const long before = service_sleeps();
  std::this_thread::sleep_for(300ms);
  BOOST_TEST(service_sleeps() == before);
}

BOOST_AUTO_TEST_CASE(blocked_leader_makes_no_wake_ups) {
  const auto reactor = make_reactor();
  WaitWord word;
  BOOST_TEST((block_out(*reactor, word, Clock::now() + 20ms) == WaitResult::kTimedOut));
  std::atomic<bool> go{false};
  std::atomic<long> own{-1};
  std::thread blocked([&] {
    const auto mine = [] {
      rusage usage{};
      ::getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw;
    };
    const long before = mine();
    go = true;
    block_out(*reactor, word, Clock::now() + 400ms);
    own = mine() - before;
  });
  BOOST_REQUIRE(eventually([&] { return go.load(); }));
  std::this_thread::sleep_for(50ms);
  const long before = service_sleeps();
  std::this_thread::sleep_for(250ms);
  BOOST_TEST(service_sleeps() == before);
  blocked.join();
  BOOST_TEST(own.load() <= 5);
}

BOOST_AUTO_TEST_CASE(polling_keeps_the_service_thread_away_but_for_one_look_a_lease) {
  const auto reactor = make_reactor();
  const auto poll_for = [&](Clock::duration time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) reactor->progress();
  };
  poll_for(20ms);
  const long before = service_sleeps();
  poll_for(200ms);
  BOOST_TEST(service_sleeps() - before <= 220);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
