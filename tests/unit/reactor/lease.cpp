// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// For how long the service thread stays away. The times are arguments, so nothing is measured.
#include "providers/reactor/lease.h"

#include "tests/unit/reactor/support.h"
#include "tests/unit/reactor/timer_wakes.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string_view>
#include <thread>

namespace {

std::atomic<long> speed{1};
std::atomic<long> relative_times{0};

int settime(int fd, int flags, const itimerspec& value, itimerspec* old = nullptr) noexcept {
  return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, &value, old));
}

}  // namespace

// As under libfaketime: the program's clock is faster than the kernel's by this factor.
extern "C" int timerfd_settime(int fd, int flags, const itimerspec* value,
                               itimerspec* old) noexcept {
  itimerspec scaled = *value;
  if ((flags & TFD_TIMER_ABSTIME) == 0) {
    scaled.it_value.tv_nsec /= speed;
    ++relative_times;
  } else if (udapl::test::parks_late && udapl::test::is_service_thread()) {
    while (udapl::test::parks_late) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return settime(fd, flags, scaled, old);
}

namespace udapl::test {

long timer_wakes() noexcept { return relative_times; }

constinit std::atomic<bool> parks_late{false};

bool is_service_thread() noexcept {
  char name[16] = "";
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return std::string_view(name) == "reactor-test";
}

using namespace std::chrono_literals;

namespace {

// A lease whose service thread sleeps, and will not time out during the test: all times are in the
// future.
struct Parked {
  Lease lease{Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC))};
  const Clock::time_point start = Clock::now() + 1h;
  std::jthread service;

  Parked() {
    lease.renew_for_poll(start);
    service = std::jthread(
        [this] { lease.park(Lease::Instead::kLease, std::nullopt, -1, [] { return false; }); });
    BOOST_REQUIRE(eventually([&] { return lease.parked(); }));
  }
  ~Parked() { lease.wake_service_thread(); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(lease)

BOOST_AUTO_TEST_CASE(long_work_between_two_polls_does_not_end_it) {
  Lease lease{Fd()};
  const Clock::time_point start = Clock::now();
  lease.renew_for_poll(start);
  BOOST_TEST(lease.valid(start + Lease::kShortest - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kShortest));
  lease.extend(start);
  BOOST_TEST(lease.valid(start + Lease::kLongWork - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kLongWork));
  // A poll that finds nothing while the peer works does not shorten the lease.
  lease.renew_for_poll(start + 10us);
  BOOST_TEST(lease.valid(start + Lease::kLongWork - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kLongWork));
  // Later polls get a short lease again.
  const Clock::time_point later = start + 2 * Lease::kLongWork;
  lease.renew_for_poll(later);
  BOOST_TEST(!lease.valid(later + Lease::kShortest));
}

BOOST_AUTO_TEST_CASE(it_is_longer_while_a_consumer_takes_items) {
  Lease lease{Fd()};
  const Clock::time_point start = Clock::now();
  lease.renew_for_poll(start);
  lease.extend_for_takes(start);
  BOOST_TEST(lease.valid(start + Lease::kAfterTakes - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kAfterTakes));
  // The turn among the takes.
  lease.renew_for_poll(start + 1us);
  BOOST_TEST(lease.valid(start + Lease::kAfterTakes - 1us));
  // Nothing more was found.
  lease.end_takes();
  lease.renew_for_poll(start + 2us);
  BOOST_TEST(!lease.valid(start + 2us + Lease::kShortest));
}

// Several polling processes on one processor: each gets it back after the others' turns.
BOOST_AUTO_TEST_CASE(it_is_longer_while_others_run_between_polls) {
  Lease lease{Fd()};
  const Clock::time_point start = Clock::now();
  lease.renew_for_poll(start, true);
  BOOST_TEST(lease.valid(start + Lease::kLongest - 1us));
  BOOST_TEST(!lease.valid(start + Lease::kLongest));
  // They have ended.
  lease.renew_for_poll(start + 1us, false);
  BOOST_TEST(!lease.valid(start + 1us + Lease::kShortest));
}

// Postponing the timer is a system call that takes microseconds.
BOOST_FIXTURE_TEST_CASE(repeated_long_work_seldom_pushes_the_timer, Parked) {
  const auto work = [&](Clock::time_point now) {
    lease.extend(now);
    lease.renew_for_poll(now + 1us);
  };
  work(start + 20us);  // half of the first lease is used up
  const Clock::time_point pushed = start + 20us + Lease::kLongWork;
  BOOST_TEST(lease.ends_after(pushed - 1us));
  for (auto now = start + 30us; now < pushed - Lease::kShortest; now += 50us) work(now);
  BOOST_TEST(!lease.ends_after(pushed));
  work(pushed);
  BOOST_TEST(lease.ends_after(pushed + Lease::kLongWork - 1us));
}

BOOST_FIXTURE_TEST_CASE(polls_without_a_break_push_the_timer_ever_less, Parked) {
  Clock::time_point now = start;
  const auto poll_until = [&](Clock::time_point end) {
    for (; now < end; now += 1us) lease.renew_for_poll(now);
  };
  const auto most = [&] { return Lease::kShortest + (now - start) / Lease::kPolledPart; };
  for (const auto polled : {100us, 1000us, 10'000us, 50'000us}) {
    poll_until(start + polled);
    BOOST_TEST(lease.valid(now + most() / 2 - 2us));
    BOOST_TEST(!lease.valid(now + most()));
  }
  poll_until(start + 150ms);
  BOOST_TEST(lease.valid(now + Lease::kLongest / 2 - 2us));
  BOOST_TEST(!lease.valid(now + Lease::kLongest));
  // The service thread has taken over and found work: the lease is short again, as every
  // microsecond counts.
  lease.after_takeover(false, lease.was_long(), now);
  lease.renew_for_poll(now += 1h);
  BOOST_TEST(!lease.valid(now + Lease::kShortest));
}

struct Polling : Parked {
  // Polls for `time`. Returns the longest lease that it has then, if it grows by `part` of that.
  Clock::duration poll(Clock::duration time, int part) {
    for (const auto end = now + time; now < end; now += 1us) lease.renew_for_poll(now);
    return Lease::kShortest + time / part;
  }
  void pause() { lease.after_takeover(false, lease.was_long(), now += 1ms); }
  Clock::time_point now = start;
};

// A program that polls for some milliseconds, and then spins on memory, does so again.
BOOST_FIXTURE_TEST_CASE(it_stays_short_for_who_spins_on_memory_between_polls, Polling) {
  for (int pause_count = 0; pause_count < 6; ++pause_count) {
    const auto most = poll(10ms, Lease::kPolledPartOfSpinners);
    BOOST_TEST(lease.valid(now + most / 2 - 2us));
    BOOST_TEST(lease.valid(now + most) == (pause_count < Lease::kPausesOfSpinners));
    pause();
  }
  now += Lease::kSpinnerFor;
  const auto most = poll(10ms, Lease::kPolledPart);
  BOOST_TEST(lease.valid(now + most / 2 - 2us));
}

// A program may send much and then poll the memory of the answer, again and again.
BOOST_FIXTURE_TEST_CASE(long_work_extends_it_less_for_who_spins_on_memory, Polling) {
  for (int pause_count = 0; pause_count < 6; ++pause_count) {
    lease.extend(now);
    const auto working = now;
    poll(10us, Lease::kPolledPart);
    BOOST_TEST(lease.valid(working + Lease::kLongWorkOfSpinners - 1us));
    BOOST_TEST(lease.valid(working + Lease::kLongWorkOfSpinners + 1us) ==
               (pause_count < Lease::kPausesOfSpinners));
    pause();
  }
  // Even if the pauses go on, it is tried again.
  now += Lease::kSpinnerFor;
  lease.extend(now);
  BOOST_TEST(lease.valid(now + Lease::kLongWork - 1us));
}

// A program that gets no processor for a moment does not spin on memory.
BOOST_FIXTURE_TEST_CASE(short_or_rare_pauses_do_not_keep_it_short, Polling) {
  for (int i = 0; i < 100; ++i) {
    poll(1ms, Lease::kPolledPart);
    pause();
  }
  for (int i = 0; i < 10; ++i) {
    const auto most = poll(10ms, Lease::kPolledPart);
    BOOST_TEST(lease.valid(now + most / 2 - 2us));
    pause();
    now += Lease::kBetweenPauses;
  }
}

// To put many pollers to rest and to wake them again takes long. But a consumer that polls only
// some times before it spins on memory gets no longer lease for them.
BOOST_FIXTURE_TEST_CASE(it_grows_faster_if_many_pollers_are_awake, Parked) {
  constexpr std::uint32_t kPollers = 100;
  constexpr auto kGrown = kPollers * Lease::kPerPoller;
  Clock::time_point now = start;
  const auto poll_until = [&](Clock::time_point end, std::uint32_t pollers) {
    for (; now < end; now += 1us) lease.renew_for_poll(now, false, pollers);
  };
  poll_until(start + 30us, kPollers);
  BOOST_TEST(!lease.valid(now + 2 * Lease::kShortest));
  poll_until(start + 15ms, kPollers);
  BOOST_TEST(lease.valid(now + kGrown / 2));
  BOOST_TEST(!lease.valid(now + kGrown));
  poll_until(now + 30ms, 100 * kPollers);
  BOOST_TEST(lease.valid(now + Lease::kLongest / 2));
  BOOST_TEST(!lease.valid(now + Lease::kLongest));
  lease.after_takeover(false, lease.was_long(), now);
  lease.renew_for_poll(now += 1h, false, kPollers);
  BOOST_TEST(!lease.valid(now + Lease::kShortest));
}

BOOST_AUTO_TEST_CASE(a_faster_clock_lets_nobody_sleep_for_ever) {
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const int fd = timer.get();
  Lease lease{std::move(timer)};
  lease.renew_for_poll(Clock::now() + 1h);
  std::atomic<bool> awake = false;
  std::jthread service([&] {
    lease.park(Lease::Instead::kLease, std::nullopt, -1, [] { return false; });
    awake = true;
  });
  BOOST_REQUIRE(eventually([&] { return lease.parked(); }));
  speed = 100;
  lease.wake_service_thread();
  speed = 1;
  BOOST_TEST(eventually([&] { return awake.load(); }));
  settime(fd, 0, {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 1}});  // to end the test
}

BOOST_AUTO_TEST_CASE(whoever_ends_it_wakes_the_service_thread) {
  Parked parked;
  parked.lease.end();
  BOOST_TEST(!parked.lease.valid(Clock::now()));
  BOOST_TEST(eventually([&] { return !parked.lease.parked(); }));
}

BOOST_AUTO_TEST_CASE(if_it_was_cut_the_service_thread_parks_briefly) {
  Lease lease{Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC))};
  lease.renew_for_poll(Clock::now() + 1h);
  lease.cut();
  BOOST_TEST(
      !lease.park(Lease::Instead::kLease, std::nullopt, -1, [] { return false; }));  // returns
}

// Another thread may cut it after the service thread has read when it ends.
BOOST_AUTO_TEST_CASE(also_if_it_is_cut_at_that_moment) {
  Lease lease{Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC))};
  for (int i = 0; i != 2000; ++i) {
    lease.renew_for_poll(Clock::now() + 1h);
    std::jthread other([&] { lease.end(); });
    BOOST_TEST(!lease.park(Lease::Instead::kLease, std::nullopt, -1, [] { return false; }));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
