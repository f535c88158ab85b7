// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The completions of an EVD: those in the CQ, those that were taken off it, and their order among
// the other events.
#include "tests/unit/dapl_events/support.h"

namespace udapl::test {

BOOST_FIXTURE_TEST_SUITE(evd, Fixture)

BOOST_AUTO_TEST_CASE(completions_keep_order_across_the_stash) {
  for (const bool thread_safe : {true, false}) {
    const OpenIa other(thread_safe);
    const DAT_EVD_HANDLE evd = other.evd(kDto, 100);
    Completions completions(other, evd);
    for (std::uint64_t i = 0; i < 50; ++i) completions.push(i);
    for (std::uint64_t i = 0; i < 50; ++i) {
      DAT_EVENT event{};
      REQUIRE_OK(other->evd_dequeue_func(evd, &event));
      BOOST_CHECK_EQUAL(cookie(event), i);
      BOOST_CHECK_EQUAL(event.evd_handle, evd);
      const auto& data = event.event_data.dto_completion_event_data;
      BOOST_CHECK_EQUAL(static_cast<int>(data.operation), static_cast<int>(DAT_DTO_RECEIVE));
      BOOST_CHECK_EQUAL(data.transfered_length, 7U);
      BOOST_CHECK_EQUAL(static_cast<int>(data.status), 0);
    }
    BOOST_CHECK_EQUAL(completions.outstanding(), 0);
  }
}

// The dequeue gate of an EVD is open exactly while a dequeue needs no more than to poll the CQ.
BOOST_AUTO_TEST_CASE(the_gate_of_an_evd) {
  const auto is_open = [](DAT_EVD_HANDLE of) { return object(of).dequeue_gate.load() == 0; };
  const DAT_EVD_HANDLE merged = ia.evd(kDto | kSoftware, 8);
  BOOST_CHECK(!is_open(merged));
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 8);
  Completions completions(ia, evd);
  BOOST_CHECK(is_open(evd));
  {  // an event that is no longer in the CQ
    completions.push(1);
    object(evd).reap();
    BOOST_CHECK(!is_open(evd));
    DAT_EVENT event{};
    REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    BOOST_CHECK(is_open(evd));
  }
  DAT_RETURN code = DAT_SUCCESS;
  std::thread waiter([&] {
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    code = ia->evd_wait_func(evd, kLate, 1, &event, &more);
  });
  await_waiter(evd);
  BOOST_CHECK(!is_open(evd));
  REQUIRE_OK(ia->evd_set_unwaitable_func(evd));
  waiter.join();
  CHECK_ERROR(code, DAT_INVALID_STATE);
  BOOST_CHECK(is_open(evd));
}

BOOST_AUTO_TEST_CASE(suppressed_completions_only_free_their_cookies) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 100);
  Completions completions(ia, evd);
  for (int i = 0; i < 40; ++i) completions.push_suppressed();
  completions.push(1);
  completions.push_suppressed();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_CHECK_EQUAL(cookie(event), 1U);
  CHECK_CODE(ia->evd_dequeue_func(evd, &event), 0x000D0000);
  BOOST_CHECK_EQUAL(completions.outstanding(), 0);
}

BOOST_AUTO_TEST_CASE(reaped_completions_stay_in_front) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 64);
  Completions completions(ia, evd);
  for (std::uint64_t i = 0; i < 40; ++i) completions.push(i);
  object(evd).reap();
  BOOST_CHECK_EQUAL(completions.outstanding(), 0);
  completions.push(40);
  for (std::uint64_t i = 0; i <= 40; ++i) {
    DAT_EVENT event{};
    REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(cookie(event), i);
  }
}

BOOST_AUTO_TEST_CASE(reaping_stops_when_the_queue_is_full) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 8);
  Completions completions(ia, evd);
  for (std::uint64_t i = 0; i < 8; ++i) completions.push(i);
  object(evd).reap();
  for (std::uint64_t i = 8; i < 16; ++i) completions.push(i);
  object(evd).reap();
  BOOST_CHECK_EQUAL(completions.outstanding(), 8);
  for (std::uint64_t i = 0; i < 16; ++i) {
    DAT_EVENT event{};
    REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(cookie(event), i);
  }
}

BOOST_AUTO_TEST_CASE(forget_drops_one_ep_from_the_stash) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 64);
  Completions completions(ia, evd);
  const int ep = 0;
  const int other = 0;
  for (std::uint64_t i = 0; i < 10; ++i) completions.push_of(i % 2 == 0 ? &ep : &other, i);
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));  // moves the rest into the stash
  object(evd).forget(*reinterpret_cast<const dapl::EpQueues*>(&ep));
  for (std::uint64_t i = 1; i < 10; i += 2) {
    REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(cookie(event), i);
  }
  CHECK_CODE(ia->evd_dequeue_func(evd, &event), 0x000D0000);
  BOOST_CHECK_EQUAL(completions.outstanding(), 0);
}

BOOST_AUTO_TEST_CASE(merged_evd_has_completions_before_the_end) {
  for (const bool thread_safe : {true, false}) {
    const OpenIa other(thread_safe);
    const DAT_EVD_HANDLE evd = other.evd(kDto | kConnection, 100);
    Completions completions(other, evd);
    for (std::uint64_t i = 0; i < 20; ++i) completions.push(i);
    DAT_EVENT event{};
    REQUIRE_OK(other->evd_dequeue_func(evd, &event));  // fills the stash
    for (std::uint64_t i = 20; i < 30; ++i) completions.push(i);
    object(evd).post(connection_event(DAT_CONNECTION_EVENT_DISCONNECTED)).run();
    completions.push(30);
    for (std::uint64_t i = 1; i < 30; ++i) {
      REQUIRE_OK(other->evd_dequeue_func(evd, &event));
      BOOST_REQUIRE_EQUAL(static_cast<int>(event.event_number), 1);
      BOOST_CHECK_EQUAL(cookie(event), i);
    }
    REQUIRE_OK(other->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), 0x4005);
    REQUIRE_OK(other->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(cookie(event), 30U);
  }
}

BOOST_AUTO_TEST_CASE(merged_evd_has_establishment_first) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto | kConnection, 100);
  Completions completions(ia, evd);
  completions.push(1);
  object(evd).post(connection_event(DAT_CONNECTION_EVENT_ESTABLISHED)).run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), 0x4001);
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_CHECK_EQUAL(cookie(event), 1U);
}

BOOST_AUTO_TEST_CASE(lost_completions_end_waits_but_not_dequeues) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 4);
  Completions completions(ia, evd);
  for (std::uint64_t i = 0; i < 5; ++i) completions.push(i);
  fake::Scheduler::instance().run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), 0x8001);
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.dat_handle, evd);
  DAT_COUNT more = 0;
  CHECK_ERROR(ia->evd_wait_func(evd, 0, 1, &event, &more), DAT_INVALID_STATE);
  for (int i = 0; i < 4; ++i) REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
}

// A consumer that answers each software event with another one still gets its completions.
BOOST_AUTO_TEST_CASE(software_events_do_not_starve_completions) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware | kDto, 4);
  Completions completions(ia, evd);
  for (int i = 0; i < 4; ++i) REQUIRE_OK(ia.post(evd));
  for (std::uint64_t i = 0; i < 3; ++i) completions.push(i);
  std::uint64_t taken = 0;
  for (int i = 0; i < 20; ++i) {
    DAT_EVENT event{};
    REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    if (event.event_number == DAT_SOFTWARE_EVENT)
      (void)ia.post(evd);  // the queue may be full
    else
      BOOST_CHECK_EQUAL(cookie(event), taken++);
  }
  BOOST_CHECK_EQUAL(taken, 3U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
