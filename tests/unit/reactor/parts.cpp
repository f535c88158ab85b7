// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The parts of a reactor that decide nothing: the drive role, the tables and queues, the events.
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "tests/unit/reactor/support.h"

namespace udapl::test {

namespace {

struct Silent final : Handler {
  void on_ready(std::uint32_t) noexcept override {}
};

Call no_call() {
  static Silent silent;
  return Call{[](void*) noexcept {}, &silent};
}

EventSet make_events(const DriveRole& role) {
  return EventSet(Fd(::epoll_create1(EPOLL_CLOEXEC)), Fd(::eventfd(0, EFD_NONBLOCK)), role);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(drive_role)

BOOST_AUTO_TEST_CASE(one_thread_holds_the_role) {
  DriveRole role;
  BOOST_TEST(role.free());
  BOOST_TEST(role.claim());
  BOOST_TEST(role.held_here());
  BOOST_TEST(!role.claim());
  bool held_there = true;
  bool claimed = true;
  std::thread([&] {
    held_there = role.held_here();
    claimed = role.claim();
  }).join();
  BOOST_TEST(!held_there);
  BOOST_TEST(!claimed);
  role.release();
  BOOST_TEST(!role.held_here());
  BOOST_TEST(role.unguarded());
}

BOOST_AUTO_TEST_CASE(leader_is_kicked_once_per_sleep) {
  DriveRole role;
  BOOST_TEST(role.claim());
  BOOST_TEST((role.wake() == DriveRole::Wake::kNoneAsleep));
  for (int sleep = 0; sleep != 2; ++sleep) {
    role.fall_asleep();
    BOOST_TEST(role.leader_sleeps());
    BOOST_TEST(!role.woken());
    BOOST_TEST((role.wake() == DriveRole::Wake::kKick));
    BOOST_TEST(role.woken());
    BOOST_TEST((role.wake() == DriveRole::Wake::kNoneAsleep));
    role.resume();
  }
}

BOOST_AUTO_TEST_CASE(guard_sleeps_without_the_role) {
  DriveRole role;
  BOOST_TEST(role.claim());
  role.guard();
  BOOST_TEST(role.free());
  BOOST_TEST(!role.unguarded());
  BOOST_TEST(role.only_guarded());
  BOOST_TEST((role.wake() == DriveRole::Wake::kKick));
  BOOST_TEST((role.wake() == DriveRole::Wake::kWoken));
  role.end_guard();
  BOOST_TEST(role.unguarded());
}

BOOST_AUTO_TEST_CASE(leader_is_woken_before_the_guard) {
  DriveRole role;
  BOOST_TEST(role.claim());
  role.guard();
  BOOST_TEST(role.claim());
  BOOST_TEST(!role.only_guarded());
  BOOST_TEST((role.wake() == DriveRole::Wake::kNoneAsleep));
  role.fall_asleep();
  BOOST_TEST((role.wake() == DriveRole::Wake::kKick));
  role.release();
  BOOST_TEST(role.only_guarded());
  BOOST_TEST((role.wake() == DriveRole::Wake::kKick));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(watch_table)

BOOST_AUTO_TEST_CASE(name_of_a_former_handler_finds_none) {
  WatchTable table;
  Silent first;
  Silent second;
  BOOST_TEST(table.reserve() == 0U);
  table.add(first, 5, false);
  const WatchTable::Name name = table.name_of(WatchTable::index_of(first));
  BOOST_REQUIRE(table.find(name) != nullptr);
  BOOST_TEST(table.find(name)->handler == &first);
  BOOST_TEST(table.find(name)->fd == -1);  // may be watched for output, too
  table.remove(first);
  table.remove(first);
  BOOST_TEST(table.find(name) == nullptr);
  second.watch_slot.only_reads = true;
  BOOST_TEST(table.reserve() == 0U);
  table.add(second, 5, true);
  BOOST_TEST(table.find(name) == nullptr);
  BOOST_TEST(table[0].fd == 5);
  BOOST_TEST(table.find(table.name_of(0))->poller);
}

BOOST_AUTO_TEST_CASE(follower_is_the_one_that_was_ready_next) {
  WatchTable table;
  Silent first;
  Silent second;
  Silent third;
  const auto add = [&](Handler& handler) {
    table.reserve();
    table.add(handler, 5, false);
    return table.name_of(WatchTable::index_of(handler));
  };
  const WatchTable::Name a = add(first);
  const WatchTable::Name b = add(second);
  BOOST_TEST(table.follower(a) == WatchTable::kNoName);
  BOOST_TEST(table.follower(WatchTable::kNoName) == WatchTable::kNoName);
  BOOST_TEST(!table.follows(b, WatchTable::kNoName));
  BOOST_TEST(!table.follows(b, a));
  BOOST_TEST(table.follows(b, a));
  BOOST_TEST(table.follower(a) == b);
  table.remove(second);
  BOOST_TEST(table.follower(a) == WatchTable::kNoName);
  BOOST_TEST(!table.follows(a, b));
  const WatchTable::Name c = add(third);  // in its slot
  BOOST_TEST(table.follower(c) == WatchTable::kNoName);
  BOOST_TEST(table.follower(a) == c);  // a wrong guess does no harm
}

BOOST_AUTO_TEST_CASE(foreign_name_finds_none) {
  WatchTable table;
  BOOST_TEST(table.find(WatchTable::kNoName) == nullptr);
  BOOST_TEST(table.find(0) == nullptr);
  table.reserve();
  BOOST_TEST(table.find(0) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(call_queue)

BOOST_AUTO_TEST_CASE(timers_are_taken_by_time) {
  const auto reactor = make_reactor();
  QueuedCalls queued;
  CallQueue queue(queued);
  Timer early(*reactor, no_call());
  Timer late(*reactor, no_call());
  const Clock::time_point now = Clock::now();
  BOOST_TEST(!queued.first_timer().has_value());
  BOOST_TEST(queue.start(late, now + 2s));
  BOOST_TEST(queue.start(early, now + 1s));
  BOOST_TEST((queued.first_timer() == now + 1s));
  BOOST_TEST(queue.take_due(now) == nullptr);
  BOOST_TEST(!queue.start(early, now + 3s));
  BOOST_TEST(queue.take_due(now + 5s) == &late);
  queue.stop(late);
  queue.stop(early);
  BOOST_TEST(queue.take_due(now + 5s) == nullptr);
  BOOST_TEST(!queued.first_timer().has_value());
}

BOOST_AUTO_TEST_CASE(deferred_call_is_queued_once) {
  const auto reactor = make_reactor();
  QueuedCalls queued;
  CallQueue queue(queued);
  Deferred first(*reactor, no_call());
  Deferred second(*reactor, no_call());
  BOOST_TEST(queue.post(first));
  BOOST_TEST(!queue.post(first));
  BOOST_TEST(queue.post(second));
  BOOST_TEST(queued.deferred == 2U);
  BOOST_TEST(queue.take_deferred() == &first);
  BOOST_TEST(queue.post(first));
  queue.cancel(second);
  BOOST_TEST(queue.take_deferred() == &first);
  BOOST_TEST(queue.take_deferred() == nullptr);
  BOOST_TEST(!queued.any_deferred());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(running_call)

BOOST_AUTO_TEST_CASE(other_thread_waits_for_the_end_of_a_call) {
  SpinLock lock;
  DriveRole role;
  RunningCall running(lock, role);
  const int object = 0;
  const int other = 0;
  BOOST_REQUIRE(role.claim());
  {
    const RunningCall::Held guard(lock);
    running.begin(&object, guard);
  }
  std::atomic<bool> ended{false};
  std::atomic<bool> in_time{false};
  std::thread waiter([&] {
    running.wait_for_end(&other);  // is not called
    running.wait_for_end(&object);
    in_time = ended.load();
  });
  std::this_thread::sleep_for(5ms);
  ended = true;
  running.end_with([&] { role.release(); });
  waiter.join();
  BOOST_TEST(in_time);
}

BOOST_AUTO_TEST_CASE(driver_does_not_wait_for_its_own_call) {
  SpinLock lock;
  DriveRole role;
  RunningCall running(lock, role);
  const int object = 0;
  BOOST_REQUIRE(role.claim());
  {
    const RunningCall::Held guard(lock);
    running.begin(&object, guard);
  }
  running.wait_for_end(&object);
  running.end();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(service_thread)

BOOST_AUTO_TEST_CASE(entry_runs_in_a_named_thread_without_signals) {
  struct Entry {
    void run() noexcept {
      while (!started) std::this_thread::yield();  // the thread that starts it gives it the name
      here = thread.here();
      ::pthread_getname_np(::pthread_self(), name, sizeof name);
      sigset_t blocked;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      takes_signals = ::sigismember(&blocked, SIGTERM) == 0;
    }
    ServiceThread thread;
    std::atomic<bool> started{false};
    bool here = false;
    bool takes_signals = true;
    char name[16] = {};
  } entry;
  entry.thread.join();  // nothing to wait for
  BOOST_REQUIRE(entry.thread.start("some-name", Call::to<&Entry::run>(&entry)) == 0);
  entry.started = true;
  entry.thread.join();
  BOOST_TEST(entry.here);
  BOOST_TEST(!entry.takes_signals);
  BOOST_TEST(entry.name == std::string("some-name"));
  BOOST_TEST(!entry.thread.here());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(event_set)

BOOST_AUTO_TEST_CASE(kick_ends_one_sleep) {
  const DriveRole role;
  EventSet events = make_events(role);
  BOOST_REQUIRE(events.add_kick());
  epoll_event event{};
  for (int kicks = 0; kicks != 2; ++kicks) {
    BOOST_TEST(events.look(&event, 1) == 0);
    events.kick();
    BOOST_TEST(events.wait(&event, 1, Clock::now() + kPatience) == 1);
    BOOST_TEST((event.data.u64 == EventSet::kKick));
    BOOST_TEST(events.wait_long(&event, 1, Clock::now() + 10ms) == 0);
  }
}

BOOST_AUTO_TEST_CASE(guard_gets_a_kick_that_a_driver_has_seen) {
  const DriveRole role;
  EventSet events = make_events(role);
  BOOST_REQUIRE(events.add_kick());
  events.kick();
  epoll_event event{};
  BOOST_TEST(events.look(&event, 1) == 1);
  BOOST_TEST(events.wait_as_guard(std::nullopt));
  events.take_kick();
  const Clock::time_point until = Clock::now() + 10ms;
  BOOST_TEST(!events.wait_as_guard(until));
  BOOST_TEST((Clock::now() >= until));
}

// The guard may wake first, and read the kick, before the leader has looked for it in epoll.
BOOST_AUTO_TEST_CASE(kick_that_the_guard_has_seen_ends_the_sleep_of_a_leader) {
  const DriveRole role;
  EventSet events = make_events(role);
  BOOST_REQUIRE(events.add_kick());
  epoll_event event{};
  events.kick();
  BOOST_TEST(events.wait_as_guard(std::nullopt));
  BOOST_TEST(events.wait_long(&event, 1, Clock::now() + 10ms) == 1);
  events.take_kick();
  BOOST_TEST(events.wait_long(&event, 1, Clock::now() + 10ms) == 0);
}

BOOST_AUTO_TEST_CASE(kick_out_of_the_set_is_seen_by_poll) {
  const DriveRole role;
  EventSet events = make_events(role);
  BOOST_REQUIRE(events.add_kick());
  events.kick();
  events.remove_kick();
  pollfd kick{events.kick_descriptor(), POLLIN, 0};
  BOOST_TEST(::poll(&kick, 1, 0) == 0);  // an old one
  events.kick();
  BOOST_TEST(::poll(&kick, 1, 0) == 1);
  events.take_kick();
  BOOST_TEST(::poll(&kick, 1, 0) == 0);
}

BOOST_AUTO_TEST_CASE(lost_set_reports_once_and_still_sleeps) {
  struct Report {
    void call() noexcept { ++calls; }
    int calls = 0;
  } report;
  DriveRole role;
  EventSet events = make_events(role);
  events.on_lost(Call::to<&Report::call>(&report));
  events.lose(EBADF);
  events.lose(EBADF);
  BOOST_TEST(events.lost());
  BOOST_TEST(report.calls == 1);
  BOOST_REQUIRE(role.claim());
  role.fall_asleep();
  epoll_event event{};
  BOOST_TEST(events.wait(&event, 1, Clock::now() + 1ms) == 0);
  std::thread waker([&] {
    if (role.wake() == DriveRole::Wake::kKick) events.kick();
  });
  BOOST_TEST(events.wait(&event, 1, std::nullopt) == 0);
  waker.join();
  BOOST_TEST(role.woken());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
