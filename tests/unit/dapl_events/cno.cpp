// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/dapl_events/woken.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace udapl::test {

namespace {

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cno, Fixture)

BOOST_AUTO_TEST_CASE(bad_cno_arguments_are_refused) {
  DAT_CNO_HANDLE made = DAT_HANDLE_NULL;
  DAT_FD fd = -1;
  CHECK_ERROR(ia->cno_create_func(ia.async, kNoAgent, &made), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->cno_create_func(ia.raw, kNoAgent, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->cno_fd_create_func(ia.raw, nullptr, &made), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->cno_fd_create_func(ia.raw, &fd, nullptr), DAT_INVALID_PARAMETER);
  const DAT_CNO_HANDLE cno = ia.cno();
  CHECK_ERROR(ia->cno_wait_func(cno, 0, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->cno_trigger_func(cno, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->cno_query_func(cno, DAT_CNO_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  DAT_CNO_PARAM param{};
  REQUIRE_OK(ia->cno_query_func(cno, any_value<DAT_CNO_PARAM_MASK>(8), &param));
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  CHECK_ERROR(ia->cno_wait_func(ia.async, 0, &evd), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->cno_trigger_func(nullptr, &evd), DAT_INVALID_HANDLE);
  REQUIRE_OK(ia->cno_free_func(cno));
  CHECK_ERROR(ia->cno_free_func(cno), DAT_INVALID_HANDLE);
  const OpenIa other;
  CHECK_ERROR(ia->evd_modify_cno_func(ia.evd(kSoftware), other.cno()), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(query_returns_ia_and_agent) {
  CountingAgent counting;
  DAT_CNO_PARAM param{};
  REQUIRE_OK(ia->cno_query_func(ia.cno(), DAT_CNO_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(static_cast<int>(param.proxy_type), 1);
  BOOST_CHECK(param.proxy.agent.proxy_agent_func == nullptr);
  const DAT_CNO_HANDLE with_agent = ia.cno(counting.agent());
  REQUIRE_OK(ia->cno_query_func(with_agent, DAT_CNO_FIELD_PROXY, &param));
  BOOST_CHECK_EQUAL(static_cast<int>(param.proxy_type), 1);
  BOOST_CHECK_EQUAL(param.proxy.agent.instance_data, &counting);
  REQUIRE_OK(ia.post(ia.evd(kSoftware, 1, with_agent)));
  REQUIRE_OK(ia->cno_query_func(with_agent, DAT_CNO_FIELD_PROXY, &param));
  BOOST_CHECK_EQUAL(static_cast<int>(param.proxy_type), 1);
  BOOST_CHECK(param.proxy.agent.proxy_agent_func == nullptr);  // it has fired
  DAT_CNO_HANDLE with_fd = DAT_HANDLE_NULL;
  DAT_FD fd = -1;
  REQUIRE_OK(ia->cno_fd_create_func(ia.raw, &fd, &with_fd));
  REQUIRE_OK(ia->cno_query_func(with_fd, DAT_CNO_FIELD_PROXY, &param));
  BOOST_CHECK_EQUAL(static_cast<int>(param.proxy_type), 2);
  BOOST_CHECK_EQUAL(param.proxy.fd, fd);
  CHECK_ERROR(ia->cno_modify_agent_func(with_fd, counting.agent()), DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_CASE(timeouts_answer_queue_empty_without_class_bits) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const auto begin = Clock::now();
  const Woken woken = wait(ia, cno, kSoon);
  CHECK_CODE(woken.code, 0x000D0000);
  BOOST_CHECK(woken.evd == DAT_HANDLE_NULL);
  BOOST_CHECK(Clock::now() - begin >= std::chrono::microseconds(kSoon));
}

BOOST_AUTO_TEST_CASE(a_trigger_stays_until_one_wait_consumes_it) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 8, cno);
  REQUIRE_OK(ia.post(evd));
  REQUIRE_OK(ia.post(evd));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, evd);
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);  // although no event has been dequeued
  REQUIRE_OK(ia.post(evd));
  BOOST_CHECK_EQUAL(wait(ia, cno, kForever).evd, evd);
}

// Many programs only look at the EVD that the wait names.
BOOST_AUTO_TEST_CASE(waits_name_all_evds_that_have_notified_in_turn) {
  const DAT_CNO_HANDLE cno = ia.cno();
  std::array<DAT_EVD_HANDLE, 3> evds{};
  for (DAT_EVD_HANDLE& evd : evds) evd = ia.evd(kSoftware | kDto, 8, cno);
  for (const int i : {1, 2, 1, 0, 2}) REQUIRE_OK(ia.post(evds.at(i)));
  for (const int i : {1, 2, 0}) {
    const Woken woken = wait(ia, cno);
    REQUIRE_OK(woken.code);
    BOOST_CHECK_EQUAL(woken.evd, evds.at(i));
  }
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);
}

// An EVD that is always busy does not keep the others from their turn.
BOOST_AUTO_TEST_CASE(an_evd_that_notifies_again_comes_last) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE busy = ia.evd(kSoftware, 8, cno);
  const DAT_EVD_HANDLE other = ia.evd(kSoftware, 8, cno);
  REQUIRE_OK(ia.post(busy));
  REQUIRE_OK(ia.post(other));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, busy);
  REQUIRE_OK(ia.post(busy));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, other);
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, busy);
}

// As a program that empties all EVDs after each wait: it is not woken for nothing.
BOOST_AUTO_TEST_CASE(an_evd_that_was_emptied_has_no_turn) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE first = ia.evd(kSoftware, 8, cno);
  const DAT_EVD_HANDLE second = ia.evd(kSoftware, 8, cno);
  REQUIRE_OK(ia.post(first));
  REQUIRE_OK(ia.post(second));
  REQUIRE_OK(wait(ia, cno).code);
  DAT_EVENT event{};
  for (const DAT_EVD_HANDLE evd : {first, second}) REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);
  REQUIRE_OK(ia.post(second));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, second);
}

// As after dat_ep_free: the flushed completions have notified, and are gone.
BOOST_AUTO_TEST_CASE(an_empty_evd_is_not_named_while_another_has_events) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE first = ia.evd(kSoftware, 8, cno);
  const DAT_EVD_HANDLE last = ia.evd(kSoftware, 8, cno);
  DAT_EVENT event{};
  REQUIRE_OK(ia.post(first));
  REQUIRE_OK(ia.post(last));
  REQUIRE_OK(ia->evd_dequeue_func(last, &event));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, first);
  REQUIRE_OK(ia.post(last));
  REQUIRE_OK(ia->evd_dequeue_func(last, &event));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, last);  // the trigger is kept
}

BOOST_AUTO_TEST_CASE(a_turn_that_is_left_releases_another_waiter) {
  const DAT_CNO_HANDLE cno = ia.cno();
  auto one = sleeper(ia, cno, kForever);
  auto two = sleeper(ia, cno, kForever);
  REQUIRE_OK(ia.post(ia.evd(kSoftware, 8, cno)));
  REQUIRE_OK(ia.post(ia.evd(kSoftware, 8, cno)));
  REQUIRE_OK(one.get().code);
  REQUIRE_OK(two.get().code);
}

BOOST_AUTO_TEST_CASE(each_trigger_releases_one_waiter) {
  const DAT_CNO_HANDLE cno = ia.cno();
  auto one = sleeper(ia, cno);
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 8, cno);
  auto two = std::async(std::launch::async, [&] { return wait(ia, cno, 100'000); });
  REQUIRE_OK(ia.post(evd));
  const int successes =
      (one.wait_for(std::chrono::seconds(1)) == std::future_status::ready ? 1 : 0) +
      (two.get().code == DAT_SUCCESS ? 1 : 0);
  BOOST_CHECK_EQUAL(successes, 1);
  REQUIRE_OK(ia.post(evd));
  REQUIRE_OK(one.get().code);
}

BOOST_AUTO_TEST_CASE(a_disabled_evd_does_not_trigger) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware | kDto, 8, cno);
  Completions completions(ia, evd);
  REQUIRE_OK(ia->evd_disable_func(evd));
  REQUIRE_OK(ia.post(evd));
  completions.push(1);
  fake::Scheduler::instance().run();
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);
  REQUIRE_OK(ia->evd_enable_func(evd));
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);  // earlier events do not trigger
  BOOST_CHECK(completions.cq().armed());
  completions.push(2);
  fake::Scheduler::instance().run();
  REQUIRE_OK(wait(ia, cno).code);
}

// While a CNO is not triggered, the CQs of its enabled EVDs are armed: a consumer that drains and
// waits cannot miss a completion, even if it has left events in the queue.
BOOST_AUTO_TEST_CASE(cq_is_armed_while_a_trigger_is_possible) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 64, cno);
  Completions completions(ia, evd);
  for (std::uint64_t i = 0; i < 5; ++i) {
    BOOST_CHECK(completions.cq().armed());
    completions.push(i);
    fake::Scheduler::instance().run();
    BOOST_CHECK(!completions.cq().armed());
    completions.push(i + 100);  // absorbed by the pending trigger
    fake::Scheduler::instance().run();
    const Woken woken = wait(ia, cno);
    REQUIRE_OK(woken.code);
    BOOST_CHECK_EQUAL(woken.evd, evd);
    CHECK_CODE(wait(ia, cno).code, 0x000D0000);
  }
  // Detaching and attaching the EVD arms its CQ again.
  completions.push(9);
  fake::Scheduler::instance().run();
  REQUIRE_OK(ia->evd_modify_cno_func(evd, DAT_HANDLE_NULL));
  BOOST_CHECK(!completions.cq().armed());
  const DAT_CNO_HANDLE another = ia.cno();
  REQUIRE_OK(ia->evd_modify_cno_func(evd, another));
  BOOST_CHECK(completions.cq().armed());
  completions.push(10);
  fake::Scheduler::instance().run();
  REQUIRE_OK(wait(ia, another).code);
}

BOOST_AUTO_TEST_CASE(modify_cno_redirects) {
  const DAT_CNO_HANDLE before = ia.cno();
  const DAT_CNO_HANDLE after = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 8, before);
  CHECK_ERROR(ia->cno_free_func(before), DAT_INVALID_STATE);
  REQUIRE_OK(ia->evd_modify_cno_func(evd, after));
  REQUIRE_OK(ia->evd_modify_cno_func(evd, after));
  REQUIRE_OK(ia.post(evd));
  CHECK_CODE(wait(ia, before).code, 0x000D0000);
  REQUIRE_OK(wait(ia, after).code);
  REQUIRE_OK(ia->cno_free_func(before));
  CHECK_ERROR(ia->cno_free_func(after), DAT_INVALID_STATE);
  REQUIRE_OK(ia->evd_modify_cno_func(evd, DAT_HANDLE_NULL));
  REQUIRE_OK(ia->cno_free_func(after));
}

BOOST_AUTO_TEST_CASE(the_documented_way_to_release_a_waiter) {
  const DAT_CNO_HANDLE cno = ia.cno();
  auto waiter = sleeper(ia, cno, kForever);
  CHECK_ERROR(ia->cno_free_func(cno), DAT_INVALID_STATE);
  const DAT_EVD_HANDLE spare = ia.evd(kSoftware, 1, cno);
  REQUIRE_OK(ia.post(spare));
  REQUIRE_OK(ia->evd_modify_cno_func(spare, DAT_HANDLE_NULL));
  REQUIRE_OK(waiter.get().code);
  REQUIRE_OK(ia->cno_free_func(cno));
}

BOOST_AUTO_TEST_CASE(descriptor_is_readable_while_triggered) {
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  DAT_FD fd = -1;
  REQUIRE_OK(ia->cno_fd_create_func(ia.raw, &fd, &cno));
  BOOST_CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  BOOST_CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
  const DAT_EVD_HANDLE first = ia.evd(kSoftware, 8, cno);
  const DAT_EVD_HANDLE second = ia.evd(kSoftware, 8, cno);
  DAT_EVD_HANDLE evd = first;
  REQUIRE_OK(ia->cno_trigger_func(cno, &evd));
  BOOST_CHECK(evd == DAT_HANDLE_NULL);  // nothing pending
  BOOST_CHECK(!readable(fd));
  for (int round = 0; round < 3; ++round) {
    REQUIRE_OK(ia.post(first));
    REQUIRE_OK(ia.post(second));
    BOOST_CHECK(readable(fd));
    BOOST_CHECK(readable(fd));
    REQUIRE_OK(ia->cno_trigger_func(cno, &evd));
    BOOST_CHECK_EQUAL(evd, second);
    BOOST_CHECK(!readable(fd));
  }
  REQUIRE_OK(ia.post(first));
  REQUIRE_OK(wait(ia, cno).code);  // a wait consumes the trigger, too
  BOOST_CHECK(!readable(fd));
  REQUIRE_OK(ia->evd_free_func(first));
  REQUIRE_OK(ia->evd_free_func(second));
  REQUIRE_OK(ia->cno_free_func(cno));
  BOOST_CHECK_EQUAL(::fcntl(fd, F_GETFD), -1);  // closed with the CNO
}

// Only the CNO should read the descriptor (dat_cno_fd_create); a program that reads it all the same
// loses no event.
BOOST_AUTO_TEST_CASE(a_descriptor_that_the_program_has_read) {
  DAT_FD fd = -1;
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->cno_fd_create_func(ia.raw, &fd, &cno));
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 4, cno);
  REQUIRE_OK(ia.post(evd));
  std::uint64_t count = 0;
  BOOST_REQUIRE_EQUAL(::read(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
  BOOST_CHECK_EQUAL(count, 1U);
  const Traced traced;
  DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->cno_trigger_func(cno, &triggered));
  BOOST_CHECK_EQUAL(triggered, evd);
  BOOST_CHECK(traced.has(trace::kError, "event descriptor: "));
  BOOST_CHECK(!readable(fd));
  REQUIRE_OK(ia.post(evd));
  BOOST_CHECK(readable(fd));
}

BOOST_AUTO_TEST_CASE(waiter_checking_cancellation_keeps_its_cno) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 4);
  fake::settings().sleep_briefly = true;
  auto waiter = sleeper(ia, cno);
  int lost = 0;
  while (lost == 0 && fake::settings().sleeps < 100'000)
    lost += ia->cno_free_func(cno) == DAT_SUCCESS ? 1 : 0;
  BOOST_REQUIRE_EQUAL(lost, 0);
  REQUIRE_OK(ia->evd_modify_cno_func(evd, cno));
  REQUIRE_OK(ia.post(evd));
  BOOST_CHECK_EQUAL(waiter.get().code, 0U);
}

// The protocol of docs/semantics.md#waiting-on-a-cno: drain, wait, drain.
BOOST_AUTO_TEST_CASE(the_consumer_protocol_never_hangs) {
  const ServiceThread service;
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 256, cno);
  Completions completions(ia, evd);
  constexpr int kEvents = 20'000;
  std::thread producer([&] {
    for (int i = 0; i < kEvents; ++i) {
      while (completions.outstanding() > 200) std::this_thread::yield();
      completions.push(static_cast<std::uint64_t>(i));
    }
  });
  int taken = 0;
  for (;;) {
    DAT_EVENT event{};
    while (ia->evd_dequeue_func(evd, &event) == DAT_SUCCESS) ++taken;
    if (taken == kEvents) break;
    BOOST_REQUIRE_EQUAL(wait(ia, cno, kLate).code, 0U);
  }
  producer.join();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
