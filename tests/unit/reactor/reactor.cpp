// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: descriptors, timers, deferred calls, sink gates.
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "providers/reactor/sink_gate.h"
#include "providers/reactor/watch.h"
#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/standstill.h"

namespace udapl::test {

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
    for (std::string line; name == "reactor-test" && std::getline(status, line);)
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

BOOST_AUTO_TEST_CASE(stopped_watch_calls_no_more) {
  const auto reactor = make_reactor();
  struct Reader {
    void read() noexcept {
      std::uint64_t value = 0;
      if (::read(fd.get(), &value, sizeof value) == sizeof value) total += value;
    }
    void ring() const {
      const std::uint64_t five = 5;
      BOOST_REQUIRE_EQUAL(::write(fd.get(), &five, sizeof five), ssize_t{sizeof five});
    }
    Fd fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::atomic<std::uint64_t> total{0};
  } reader;
  Watch watch(*reactor, Call::to<&Reader::read>(&reader));
  watch.stop();  // no effect: not started
  BOOST_REQUIRE(watch.start(reader.fd.get()).ok());
  reader.ring();
  BOOST_TEST(eventually([&] { return reader.total == 5; }));
  watch.stop();
  reader.ring();
  std::this_thread::sleep_for(20ms);
  BOOST_TEST(reader.total == 5);
}

BOOST_AUTO_TEST_CASE(polling_takes_over_from_the_service_thread) {
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
  // The service thread takes over again when the polling ends.
  bell.ring();
  BOOST_TEST(eventually([&] { return bell.rung == 201; }));
}

// The service thread may have seen the edge when it finds that a thread of the application drives.
BOOST_AUTO_TEST_CASE(no_edge_is_lost_between_two_threads) {
  const auto reactor = make_reactor();
  Bell bell(*reactor, EPOLLIN | EPOLLET);
  std::atomic<int> round{0};
  std::atomic<bool> over{false};
  std::jthread ringer([&] {
    for (int rung = 0; !over;) {
      if (rung == round) {
        std::this_thread::yield();  // not sleep: it must ring while the rounds' turns are made
        continue;
      }
      ++rung;
      bell.ring();
    }
  });
  for (int i = 1; i <= 4000; ++i) {
    std::this_thread::sleep_for(60us);  // the service thread takes over
    round = i;
    for (int turns = 0; turns < 20; ++turns) reactor->progress();
    if (!eventually([&] { return bell.rung == i; })) {
      BOOST_TEST(bell.rung == i);
      break;
    }
  }
  over = true;
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
  Clock::time_point start;
  {
    const Standstill standstill(*reactor);  // none fires before all have been started
    start = Clock::now();
    for (std::size_t i = 0; i < shots.size(); ++i) {
      shots[i].count = &count;
      timers[i].emplace(*reactor, Call::to<&Shot::fire>(&shots[i]));
      timers[i]->start(start + std::chrono::milliseconds(delays[i]));
    }
  }
  BOOST_TEST(eventually([&] {
    return std::ranges::all_of(shots, [](const Shot& shot) { return shot.order != 0; });
  }));
  for (std::size_t i = 0; i < shots.size(); ++i) {
    BOOST_TEST(shots[i].order * 10 == delays[i]);
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
    const Standstill standstill(*reactor);
    {
      Timer dies(*reactor, Call::to<&Counter::call>(&gone));
      dies.start_after(20ms);
    }
    never.start_after(20ms);
    never.stop();
    never.stop();
  }
  late.start_after(1h);
  late.start_after(30ms);  // must wake the service thread, which would sleep for an hour
  BOOST_TEST(eventually([&] { return moved.ended == 1; }));
  std::this_thread::sleep_for(20ms);
  BOOST_TEST(stopped.begun == 0);
  BOOST_TEST(gone.begun == 0);
  BOOST_TEST(moved.begun == 1);
}

BOOST_AUTO_TEST_CASE(timer_fires_during_polls_and_waits) {
  const auto reactor = make_reactor();
  struct Alarm {
    void call() noexcept {
      ++calls;
      word.signal();
    }
    std::atomic<int> calls{0};
    WaitWord word;
  } alarm;
  Timer timer(*reactor, Call::to<&Alarm::call>(&alarm));
  timer.start_after(5ms);
  const auto end = Clock::now() + kPatience;
  while (alarm.calls == 0 && Clock::now() < end) reactor->progress();
  BOOST_TEST(alarm.calls == 1);
  timer.start_after(5ms);
  for (auto seen = alarm.word.value(); alarm.calls == 1 && Clock::now() < end;
       seen = alarm.word.value())
    reactor->block(alarm.word, seen, end);
  BOOST_TEST(alarm.calls == 2);
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

namespace {

// Keeps the service thread in a call until release().
class Occupied {
 public:
  explicit Occupied(Reactor& reactor) : call_(reactor, Call::to<&Counter::call>(&counter_)) {
    counter_.held = true;
    call_.post();
    BOOST_REQUIRE(eventually([&] { return counter_.begun == 1; }));
  }
  ~Occupied() { release(); }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;
  void release() { counter_.held = false; }

 private:
  Counter counter_;
  Deferred call_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(deferred_call_comes_once_for_many_posts) {
  const auto reactor = make_reactor();
  Counter counter;
  Deferred deferred(*reactor, Call::to<&Counter::call>(&counter));
  Occupied occupied(*reactor);
  for (int i = 0; i < 10; ++i) deferred.post();
  occupied.release();
  BOOST_TEST(eventually([&] { return counter.ended == 1; }));
  std::this_thread::sleep_for(5ms);
  BOOST_TEST(counter.begun == 1);
}

BOOST_AUTO_TEST_CASE(deferred_call_is_made_wherever_the_driver_is) {
  const auto reactor = make_reactor();
  Counter counter;
  Deferred deferred(*reactor, Call::to<&Counter::call>(&counter));
  int expected = 0;
  // The service thread sleeps in epoll, then is parked behind a polling thread, then behind a
  // blocked one.
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
  Counter counter;
  Deferred deferred(*reactor, Call::to<&Counter::call>(&counter));
  Occupied occupied(*reactor);
  deferred.post();
  deferred.cancel();
  occupied.release();
  Counter last;
  Deferred after(*reactor, Call::to<&Counter::call>(&last));
  after.post();
  BOOST_TEST(eventually([&] { return last.ended == 1; }));
  BOOST_TEST(counter.begun == 0);
}

namespace {

// An object with a sink gate, like the QP and the CQ.
class Speaker {
 public:
  Speaker(Reactor& reactor, std::vector<unsigned>& said)
      : said_(said), gate(reactor, SinkGate::to<&Speaker::deliver, Speaker>(), this) {}
  void deliver(unsigned call) noexcept {
    ++running;
    while (held) std::this_thread::sleep_for(100us);
    said_.push_back(call);
    --running;
    ++calls;
    if (suicidal) delete this;
  }
  std::atomic<bool> held{false};
  std::atomic<int> running{0};
  std::atomic<int> calls{0};
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
  const auto end = Clock::now() + kPatience;
  while (speaker.calls < 4 && Clock::now() < end) block_out(*reactor, word, Clock::now() + 1ms);
  block_out(*reactor, word, Clock::now() + 10ms);  // time for calls that must not be made
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
    speaker->gate.post(2);  // discarded with the object
    speaker->held = false;
  }
  Counter last;
  Deferred after(*reactor, Call::to<&Counter::call>(&last));
  after.post();
  BOOST_TEST(eventually([&] { return last.ended == 1; }));
  BOOST_TEST(said.size() == 50U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
