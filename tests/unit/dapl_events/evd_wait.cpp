// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/dapl_events/support.h"

#include <csignal>
#include <future>

#include <pthread.h>

namespace udapl::test {

namespace {

struct Outcome {
  DAT_RETURN code;
  DAT_EVENT event;
  DAT_COUNT more;
};

Outcome wait(const OpenIa& ia, DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold = 1) {
  Outcome outcome{0, {}, -1};
  outcome.code = ia->evd_wait_func(evd, timeout, threshold, &outcome.event, &outcome.more);
  return outcome;
}

// Starts a wait in another thread, which is the EVD's waiter when this returns.
std::future<Outcome> sleeper(const OpenIa& ia, DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout = kLate,
                             DAT_COUNT threshold = 1) {
  auto result = std::async(std::launch::async, [&ia, evd, timeout, threshold] {
    return wait(ia, evd, timeout, threshold);
  });
  await_waiter(evd);
  return result;
}

bool still_sleeps(std::future<Outcome>& waiter) {
  return waiter.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(evd_wait, Fixture)

BOOST_AUTO_TEST_CASE(bad_wait_arguments_are_refused) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 4);
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  CHECK_CODE(ia->evd_wait_func(evd, 0, 0, &event, &more), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(ia->evd_wait_func(evd, 0, -1, &event, &more), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(ia->evd_wait_func(evd, 0, 5, &event, &more), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(ia->evd_wait_func(evd, 0, 1, nullptr, &more), invalid_parameter(DAT_INVALID_ARG4));
  CHECK_CODE(ia->evd_wait_func(evd, 0, 1, &event, nullptr), invalid_parameter(DAT_INVALID_ARG5));
  CHECK_ERROR(ia->evd_wait_func(ia.raw, 0, 1, &event, &more), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->evd_wait_func(evd, 0, 4, &event, &more), DAT_TIMEOUT_EXPIRED);
}

BOOST_AUTO_TEST_CASE(timeouts_answer_as_existing_providers_do) {
  for (const bool thread_safe : {true, false}) {
    const OpenIa other(thread_safe);
    for (const DAT_TIMEOUT timeout : {DAT_TIMEOUT{0}, DAT_TIMEOUT{500}}) {
      CHECK_CODE(wait(other, other.evd(kDto), timeout).code, 0x000F0000);
      CHECK_CODE(wait(other, other.evd(kSoftware), timeout).code, dat_error(DAT_TIMEOUT_EXPIRED));
    }
  }
}

BOOST_AUTO_TEST_CASE(waits_as_long_as_it_should) {
  for (const unsigned flags : {kDto, kSoftware}) {
    const auto begin = Clock::now();
    const Outcome outcome = wait(ia, ia.evd(flags), kSoon);
    const auto took = Clock::now() - begin;
    BOOST_CHECK_EQUAL(type_of(outcome.code), static_cast<DAT_RETURN>(DAT_TIMEOUT_EXPIRED));
    BOOST_CHECK_EQUAL(outcome.more, 0);
    BOOST_CHECK(took >= std::chrono::microseconds(kSoon));
  }
}

BOOST_AUTO_TEST_CASE(counts_remaining_events_exactly) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto | kSoftware, 100);
  Completions completions(ia, evd);
  for (std::uint64_t i = 0; i < 45; ++i) {
    completions.push(i);
    completions.push_suppressed();
  }
  REQUIRE_OK(ia.post(evd, 7));
  for (DAT_COUNT left = 45; left >= 0; --left) {
    const Outcome outcome = wait(ia, evd, 0);
    REQUIRE_OK(outcome.code);
    BOOST_CHECK_EQUAL(outcome.more, left);
  }
  CHECK_CODE(wait(ia, evd, 0).code, 0x000F0000);
  BOOST_CHECK_EQUAL(completions.outstanding(), 0);
}

BOOST_AUTO_TEST_CASE(thresholds_beyond_the_stash) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 60);
  Completions completions(ia, evd);
  for (std::uint64_t i = 0; i < 59; ++i) completions.push(i);
  const Outcome early = wait(ia, evd, 0, 60);
  CHECK_CODE(early.code, 0x000F0000);
  BOOST_CHECK_EQUAL(early.more, 59);
  for (int i = 0; i < 30; ++i) completions.push_suppressed();  // no events
  CHECK_CODE(wait(ia, evd, 0, 60).code, 0x000F0000);
  auto waiter = sleeper(ia, evd, kLate, 60);
  BOOST_CHECK(still_sleeps(waiter));
  completions.push(59);
  fake::Scheduler::instance().run();
  const Outcome outcome = waiter.get();
  REQUIRE_OK(outcome.code);
  BOOST_CHECK_EQUAL(cookie(outcome.event), 0U);
  BOOST_CHECK_EQUAL(outcome.more, 59);
}

BOOST_AUTO_TEST_CASE(the_transport_knows_how_many_completions_are_missing) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 8);
  Completions completions(ia, evd);
  completions.push(0);
  auto waiter = sleeper(ia, evd, kLate, 4);
  while (completions.cq().awaited != 3) std::this_thread::yield();
  completions.push(1);
  fake::Scheduler::instance().run();
  while (completions.cq().awaited != 2) std::this_thread::yield();
  completions.push(2);
  completions.push(3);
  fake::Scheduler::instance().run();
  REQUIRE_OK(waiter.get().code);
}

BOOST_AUTO_TEST_CASE(a_threshold_absorbs_wake_ups_below_it) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 8);
  auto waiter = sleeper(ia, evd, kLate, 3);
  REQUIRE_OK(ia.post(evd, 1));
  REQUIRE_OK(ia.post(evd, 2));
  BOOST_CHECK(still_sleeps(waiter));
  REQUIRE_OK(ia.post(evd, 3));
  const Outcome outcome = waiter.get();
  REQUIRE_OK(outcome.code);
  BOOST_CHECK_EQUAL(outcome.more, 2);
  BOOST_CHECK_EQUAL(ia.take(evd), 2);
}

// Wake-ups that do not satisfy the waiter must not extend its timeout.
BOOST_AUTO_TEST_CASE(the_deadline_is_absolute) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 1000);
  const auto begin = Clock::now();
  auto waiter = sleeper(ia, evd, 100'000, 1000);
  while (waiter.wait_for(std::chrono::milliseconds(10)) == std::future_status::timeout) {
    REQUIRE_OK(ia.post(evd));
    BOOST_REQUIRE(Clock::now() - begin < std::chrono::microseconds(kLate));
  }
  const Outcome outcome = waiter.get();
  CHECK_ERROR(outcome.code, DAT_TIMEOUT_EXPIRED);
  BOOST_CHECK_GE(outcome.more, 1);
  BOOST_CHECK_EQUAL(ia.take(evd), 0);  // nothing was dequeued
}

BOOST_AUTO_TEST_CASE(sleeps_through_events_that_do_not_notify) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 8);
  Completions completions(ia, evd);
  completions.push(1, false);
  REQUIRE_OK(wait(ia, evd, kLate).code);  // returns at once for an event that is already queued
  auto waiter = sleeper(ia, evd);
  while (!completions.cq().armed()) std::this_thread::yield();
  // Lets the waiter go to sleep: after arming, it polls the CQ once more.
  BOOST_CHECK(still_sleeps(waiter));
  completions.push(2, false);
  BOOST_CHECK(still_sleeps(waiter));
  completions.push(3, true);
  fake::Scheduler::instance().run();
  const Outcome outcome = waiter.get();
  REQUIRE_OK(outcome.code);
  BOOST_CHECK_EQUAL(cookie(outcome.event), 2U);  // the oldest
  BOOST_CHECK_EQUAL(outcome.more, 1);
}

BOOST_AUTO_TEST_CASE(thresholds_need_threshold_mode) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 8);
  constexpr auto kRecv = dapl::Evd::StreamKind::kRecv;
  // A stream in threshold mode beside it changes nothing.
  for (const bool beside : {false, true}) {
    if (beside) object(evd).attach_stream(kRecv, dapl::CompletionMode::kThreshold);
    for (const auto mode : {dapl::CompletionMode::kUnsignalled, dapl::CompletionMode::kSolicited}) {
      object(evd).attach_stream(kRecv, mode);
      CHECK_ERROR(wait(ia, evd, 0, 2).code, DAT_INVALID_STATE);
      CHECK_CODE(wait(ia, evd, 0, 1).code, 0x000F0000);
      object(evd).detach_stream(kRecv, mode);
      CHECK_CODE(wait(ia, evd, 0, 2).code, 0x000F0000);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_waiter_excludes_others) {
  for (const unsigned flags : {kSoftware, kSoftware | kDto}) {
    const DAT_EVD_HANDLE evd = ia.evd(flags, 8);
    auto waiter = sleeper(ia, evd);
    CHECK_CODE(wait(ia, evd, 0).code, dat_error(DAT_INVALID_STATE));
    DAT_EVENT event{};
    CHECK_ERROR(ia->evd_dequeue_func(evd, &event), DAT_INVALID_STATE);
    CHECK_ERROR(ia->evd_resize_func(evd, 9), DAT_INVALID_STATE);
    CHECK_ERROR(ia->evd_free_func(evd), DAT_INVALID_STATE);
    DAT_EVD_PARAM param{};
    REQUIRE_OK(ia->evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
    BOOST_CHECK(still_sleeps(waiter));
    REQUIRE_OK(ia.post(evd, 4));
    REQUIRE_OK(waiter.get().code);
    BOOST_CHECK_EQUAL(ia.take(evd), -1);
  }
}

BOOST_AUTO_TEST_CASE(set_unwaitable_ends_the_wait) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 8);
  auto waiter = sleeper(ia, evd);
  REQUIRE_OK(ia->evd_set_unwaitable_func(evd));
  CHECK_CODE(waiter.get().code, dat_error(DAT_INVALID_STATE));
  CHECK_CODE(wait(ia, evd, 0).code,
             DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_EVD_UNWAITABLE);
  REQUIRE_OK(ia->evd_set_unwaitable_func(evd));
  REQUIRE_OK(ia.post(evd, 3));
  BOOST_CHECK_EQUAL(ia.take(evd), 3);  // dequeuing is not affected
  REQUIRE_OK(ia->evd_clear_unwaitable_func(evd));
  REQUIRE_OK(ia->evd_clear_unwaitable_func(evd));
  CHECK_CODE(wait(ia, evd, 0).code, dat_error(DAT_TIMEOUT_EXPIRED));
  // The waiter leaves even if the EVD is waitable again before the waiter runs.
  auto again = sleeper(ia, evd);
  REQUIRE_OK(ia->evd_set_unwaitable_func(evd));
  REQUIRE_OK(ia->evd_clear_unwaitable_func(evd));
  CHECK_CODE(again.get().code, dat_error(DAT_INVALID_STATE));
}

BOOST_AUTO_TEST_CASE(a_signal_interrupts_only_waits_for_completions) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  BOOST_REQUIRE_EQUAL(sigaction(SIGUSR1, &action, &before), 0);
  for (const unsigned flags : {kDto, kSoftware}) {
    const DAT_EVD_HANDLE evd = ia.evd(flags);
    Outcome outcome{};
    std::atomic<bool> done{false};
    std::thread waiter([&] {
      outcome = wait(ia, evd, flags == kDto ? kLate : 1'000'000);
      done = true;
    });
    await_waiter(evd);
    while (!done) {  // the first signals may arrive before the waiter sleeps
      pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    waiter.join();
    CHECK_CODE(outcome.code, flags == kDto ? 0x00130000U : dat_error(DAT_TIMEOUT_EXPIRED));
    BOOST_CHECK_EQUAL(outcome.more, 0);
  }
  sigaction(SIGUSR1, &before, nullptr);
}

BOOST_AUTO_TEST_CASE(closing_the_ia_aborts_waiters) {
  for (const unsigned flags : {kDto, kSoftware}) {
    OpenIa other;
    auto waiter = sleeper(other, other.evd(flags), kForever);
    auto async_waiter = sleeper(other, other.async, kForever);
    REQUIRE_OK(other.close());
    CHECK_CODE(waiter.get().code, DAT_CLASS_ERROR | DAT_ABORT);
    CHECK_CODE(async_waiter.get().code, DAT_CLASS_ERROR | DAT_ABORT);
  }
}

BOOST_AUTO_TEST_CASE(waiter_gets_the_notification_before_the_cno) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kDto | kSoftware, 8, cno);
  Completions completions(ia, evd);
  auto waiter = sleeper(ia, evd);
  completions.push(1);
  fake::Scheduler::instance().run();
  REQUIRE_OK(waiter.get().code);
  DAT_EVD_HANDLE hint = evd;
  CHECK_CODE(ia->cno_wait_func(cno, 0, &hint), 0x000D0000);
  BOOST_CHECK(hint == DAT_HANDLE_NULL);
  BOOST_CHECK(completions.cq().armed());  // re-armed for the CNO
  completions.push(2);
  fake::Scheduler::instance().run();
  REQUIRE_OK(ia->cno_wait_func(cno, 0, &hint));
  BOOST_CHECK_EQUAL(hint, evd);
}

// While an EVD has a waiter, its CNO is not triggered. An event that arrives after the waiter has
// given up, but before it has left, must trigger the CNO.
BOOST_AUTO_TEST_CASE(leaving_waiters_notification_triggers_the_cno) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware | kDto, 4, cno);
  auto& cq = static_cast<fake::Cq&>(*object(evd).cq());
  // The transport blocks, so the next poll of the CQ is the waiter's last one.
  fake::settings().drive = true;
  fake::Scheduler::instance().defer(&cq, [&] {
    fake::settings().drive = false;
    object(evd).set_waitable(false);
    cq.on_next_poll([&] { std::thread([&] { REQUIRE_OK(ia.post(evd, 7)); }).join(); });
  });
  const Outcome outcome = wait(ia, evd, kLate);
  CHECK_ERROR(outcome.code, DAT_INVALID_STATE);
  DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->cno_wait_func(cno, 0, &triggered));
  BOOST_CHECK_EQUAL(triggered, evd);
  BOOST_CHECK_EQUAL(ia.take(evd), 7);
}

// A wait that begins while another thread closes the IA is aborted.
BOOST_AUTO_TEST_CASE(no_wait_begins_in_a_closing_ia) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 4);
  object(evd).abort();
  CHECK_ERROR(wait(ia, evd, kForever).code, DAT_ABORT);
}

BOOST_AUTO_TEST_CASE(completions_lost_while_waiting_end_the_wait) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 8);
  Completions completions(ia, evd);
  auto waiter = sleeper(ia, evd, kForever);
  completions.cq().overflow();
  fake::Scheduler::instance().run();
  CHECK_ERROR(waiter.get().code, DAT_INVALID_STATE);
}

// A waiter looks now and then whether it was cancelled. It remains the waiter meanwhile.
BOOST_AUTO_TEST_CASE(waiter_checking_cancellation_keeps_its_evd) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 4);
  fake::settings().sleep_briefly = true;
  auto waiter = sleeper(ia, evd, kForever);
  int lost = 0;
  while (fake::settings().sleeps < 100'000) lost += object(evd).waited() ? 0 : 1;
  BOOST_CHECK_EQUAL(lost, 0);
  CHECK_ERROR(ia->evd_free_func(evd), DAT_INVALID_STATE);
  REQUIRE_OK(ia.post(evd));
  BOOST_CHECK_EQUAL(waiter.get().code, 0U);
  REQUIRE_OK(ia->evd_free_func(evd));
}

BOOST_AUTO_TEST_CASE(no_wake_up_is_lost) {
  const ServiceThread service;
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 256);
  Completions completions(ia, evd);
  constexpr std::uint64_t kEvents = 20'000;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kEvents; ++i) {
      while (completions.outstanding() > 200) std::this_thread::yield();
      completions.push(i);
    }
  });
  std::uint64_t next = 0;
  while (next < kEvents) {
    const Outcome outcome = wait(ia, evd, kLate);
    BOOST_REQUIRE_EQUAL(outcome.code, 0U);
    BOOST_REQUIRE_EQUAL(cookie(outcome.event), next);
    ++next;
    for (DAT_COUNT i = 0; i < outcome.more; ++i) {  // as many events as nmore promises are queued
      DAT_EVENT event{};
      BOOST_REQUIRE_EQUAL(ia->evd_dequeue_func(evd, &event), 0U);
      BOOST_REQUIRE_EQUAL(cookie(event), next);
      ++next;
    }
  }
  producer.join();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
