// SPDX-License-Identifier: MIT OR GPL-2.0-only
// EVDs without waiting: create, query, queue, resize, overflow, free.
#include "tests/unit/dapl_events/support.h"

#include <limits>

namespace udapl::test {

BOOST_FIXTURE_TEST_SUITE(evd, Fixture)

BOOST_AUTO_TEST_CASE(ring_wraps_and_keeps_its_order_when_it_moves) {
  dapl::EventRing ring(3);
  DAT_EVENT event{};
  const auto number = [&event] { return static_cast<int>(event.event_number); };
  int next = 0;
  int expected = 0;
  for (int round = 0; round < 5; ++round) {
    while (!ring.full()) {
      event.event_number = static_cast<DAT_EVENT_NUMBER>(next++);
      ring.next() = event;
      ring.commit();
    }
    BOOST_REQUIRE(ring.pop(&event));
    BOOST_CHECK_EQUAL(number(), expected++);
  }
  dapl::EventRing larger(10);
  ring.move_into(larger);
  BOOST_CHECK_EQUAL(ring.capacity(), 10U);
  BOOST_CHECK_EQUAL(ring.size(), 2U);
  while (ring.pop(&event)) BOOST_CHECK_EQUAL(number(), expected++);
  BOOST_CHECK_EQUAL(expected, next);
}

BOOST_AUTO_TEST_CASE(create_refuses_bad_arguments) {
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  const auto create = [&](DAT_COUNT qlen, DAT_CNO_HANDLE cno, unsigned flags) {
    return ia->evd_create_func(ia.raw, qlen, cno, static_cast<DAT_EVD_FLAGS>(flags), &evd);
  };
  CHECK_CODE(create(0, nullptr, kSoftware), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(create(-1, nullptr, kSoftware), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(create(4097, nullptr, kSoftware),
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
  CHECK_CODE(create(8, nullptr, DAT_EVD_ASYNC_FLAG | kSoftware),
             invalid_parameter(DAT_INVALID_ARG4));
  CHECK_ERROR(create(8, ia.raw, kSoftware), DAT_INVALID_HANDLE);
  CHECK_CODE(ia->evd_create_func(ia.raw, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, nullptr),
             invalid_parameter(DAT_INVALID_ARG5));
  CHECK_ERROR(ia->evd_create_func(ia.async, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, &evd),
              DAT_INVALID_HANDLE);
  BOOST_CHECK(evd == DAT_HANDLE_NULL);
  REQUIRE_OK(create(8, nullptr, 0));
  REQUIRE_OK(create(8, nullptr, 0x400));
  REQUIRE_OK(create(4096, nullptr, kSoftware | 0x200));
}

BOOST_AUTO_TEST_CASE(refused_creation_leaves_nothing_behind) {
  const int limit = ia.object().attributes().max_evds;
  std::vector<DAT_EVD_HANDLE> evds;
  while (static_cast<int>(evds.size()) < limit - 1) evds.push_back(ia.evd(kSoftware, 1));
  DAT_EVD_HANDLE one_more = DAT_HANDLE_NULL;
  CHECK_ERROR(ia->evd_create_func(ia.raw, 1, nullptr, DAT_EVD_DTO_FLAG, &one_more),
              DAT_INSUFFICIENT_RESOURCES);
  REQUIRE_OK(ia->evd_free_func(evds.back()));
  fake::settings().fail_from = 1;
  CHECK_ERROR(ia->evd_create_func(ia.raw, 1, nullptr, DAT_EVD_DTO_FLAG, &one_more),
              DAT_INSUFFICIENT_RESOURCES);
  fake::settings().fail_from = 0;
  REQUIRE_OK(ia->evd_create_func(ia.raw, 1, nullptr, DAT_EVD_DTO_FLAG, &one_more));
}

BOOST_AUTO_TEST_CASE(query_fills_everything) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(kDto | kSoftware, 10, cno);
  DAT_EVD_PARAM param;
  std::memset(&param, 0xA5, sizeof param);
  REQUIRE_OK(ia->evd_query_func(evd, DAT_EVD_FIELD_EVD_QLEN, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.evd_qlen, 10);
  BOOST_CHECK_EQUAL(static_cast<int>(param.evd_state), 0x35);
  BOOST_CHECK_EQUAL(param.cno_handle, cno);
  BOOST_CHECK_EQUAL(static_cast<unsigned>(param.evd_flags), kDto | kSoftware);
  REQUIRE_OK(ia->evd_query_func(evd, any_value<DAT_EVD_PARAM_MASK>(0x20), &param));
  CHECK_CODE(ia->evd_query_func(evd, DAT_EVD_FIELD_ALL, nullptr),
             invalid_parameter(DAT_INVALID_ARG3));
  CHECK_ERROR(ia->evd_query_func(nullptr, DAT_EVD_FIELD_ALL, &param), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(empty_queues_answer_as_existing_providers_do) {
  for (const bool thread_safe : {true, false}) {
    const OpenIa other(thread_safe);
    DAT_EVENT event{};
    CHECK_CODE(other->evd_dequeue_func(other.evd(kDto), &event), 0x000D0000);
    CHECK_CODE(other->evd_dequeue_func(other.evd(kDto | kSoftware), &event), 0x000D0000);
    CHECK_CODE(other->evd_dequeue_func(other.evd(kSoftware), &event), dat_error(DAT_QUEUE_EMPTY));
    CHECK_CODE(other->evd_dequeue_func(other.evd(kDto), nullptr),
               invalid_parameter(DAT_INVALID_ARG2));
    CHECK_CODE(other->evd_dequeue_func(other.raw, &event),
               invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    const DAT_EVD_HANDLE freed = other.evd(kDto);
    REQUIRE_OK(other->evd_free_func(freed));
    CHECK_CODE(other->evd_dequeue_func(freed, &event),
               invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
  }
}

BOOST_AUTO_TEST_CASE(software_events_keep_order_and_fill_the_queue) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 4);
  for (std::uintptr_t i = 0; i < 4; ++i) REQUIRE_OK(ia.post(evd, i));
  CHECK_CODE(ia.post(evd, 9), dat_error(DAT_QUEUE_FULL));
  for (long i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(ia.take(evd), i);
  BOOST_CHECK_EQUAL(ia.take(evd), -1);
  BOOST_CHECK_EQUAL(ia.take(ia.async), -1);  // no event was lost, so no overflow is reported

  DAT_EVENT event{};
  event.event_number = DAT_DTO_COMPLETION_EVENT;
  CHECK_ERROR(ia->evd_post_se_func(evd, &event), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->evd_post_se_func(evd, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia.post(ia.evd(kDto)), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(an_empty_queue_drives_a_transport_that_needs_it) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto);
  fake::Cq& cq = Completions(ia, evd).cq();
  DAT_EVENT event{};
  cq.drive = true;
  Completions completions(ia, evd);
  fake::Scheduler::instance().defer(&cq, [&] { completions.push(5); });
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_CHECK_EQUAL(cookie(event), 5U);
  BOOST_CHECK_GE(cq.progresses.load(), 1);
}

// The transport may have to wake the thread that makes such events.
BOOST_AUTO_TEST_CASE(polls_that_drive_nothing_are_reported_if_in_vain) {
  std::atomic<int>& polls = fake::settings().idle_polls;
  const DAT_EVD_HANDLE evd = ia.evd(kConnection);
  DAT_EVENT event{};
  CHECK_CODE(ia->evd_dequeue_func(evd, &event), 0x800D0000);
  BOOST_CHECK_EQUAL(polls.load(), 1);
  object(evd).post(connection_event(DAT_CONNECTION_EVENT_ESTABLISHED)).run();
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_CHECK_EQUAL(polls.load(), 1);
  for (const unsigned flags : {kDto, kDto | kConnection})  // their polls drive
    CHECK_CODE(ia->evd_dequeue_func(ia.evd(flags), &event), 0x000D0000);
  BOOST_CHECK_EQUAL(polls.load(), 1);
  CHECK_CODE(ia->evd_dequeue_func(ia.async, &event), 0x800D0000);
  BOOST_CHECK_EQUAL(polls.load(), 2);
}

BOOST_AUTO_TEST_CASE(overflow_is_reported_once_per_episode) {
  const DAT_EVD_HANDLE evd = ia.evd(kConnection, 2);
  const DAT_EVENT event = connection_event(DAT_CONNECTION_EVENT_ESTABLISHED);
  const auto reports = [&] {
    int count = 0;
    DAT_EVENT async{};
    while (ia->evd_dequeue_func(ia.async, &async) == DAT_SUCCESS) {
      BOOST_CHECK_EQUAL(static_cast<int>(async.event_number), 0x8001);
      BOOST_CHECK_EQUAL(async.event_data.asynch_error_event_data.dat_handle, evd);
      BOOST_CHECK_EQUAL(async.event_data.asynch_error_event_data.reason, 0);
      ++count;
    }
    return count;
  };
  for (int i = 0; i < 5; ++i) object(evd).post(event).run();
  BOOST_CHECK_EQUAL(reports(), 1);
  DAT_EVENT out{};
  REQUIRE_OK(ia->evd_dequeue_func(evd, &out));  // the queued event is not lost
  object(evd).post(event).run();
  BOOST_CHECK_EQUAL(reports(), 0);
  object(evd).post(event).run();
  BOOST_CHECK_EQUAL(reports(), 1);
  bool queued = true;
  object(evd).try_post(event, &queued).run();
  BOOST_CHECK(!queued);
  BOOST_CHECK_EQUAL(reports(), 0);
}

// Any peer can request a connection, so requests leave room for two events of each EP, up to half
// of the queue.
BOOST_AUTO_TEST_CASE(requests_leave_room_for_connection_events) {
  const DAT_EVENT request = connection_event(DAT_CONNECTION_REQUEST_EVENT);
  for (const auto& [connections, room] : {std::pair(0, 8), std::pair(1, 6), std::pair(100, 4)}) {
    const DAT_EVD_HANDLE evd = ia.evd(kConnection | DAT_EVD_CR_FLAG, 8);
    object(evd).count_connections(connections);
    bool queued = true;
    int requests = 0;
    for (; queued; ++requests) object(evd).try_post(request, &queued).run();
    BOOST_CHECK_EQUAL(requests - 1, room);
    for (int i = 0; i < 8 - room; ++i)
      object(evd).post(connection_event(DAT_CONNECTION_EVENT_DISCONNECTED)).run();
    DAT_EVENT event{};
    for (int i = 0; i < 8; ++i) REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(event.event_number, connections != 0 ? DAT_CONNECTION_EVENT_DISCONNECTED
                                                           : DAT_CONNECTION_REQUEST_EVENT);
    object(evd).count_connections(-connections);
  }
}

BOOST_AUTO_TEST_CASE(overflow_of_the_async_evd_loses_only_events) {
  const DAT_EVD_HANDLE evd = ia.evd(kConnection, 1);
  const DAT_EVENT event = connection_event(DAT_CONNECTION_EVENT_ESTABLISHED);
  DAT_EVENT out{};
  for (int i = 0; i < 300; ++i) {  // 300 episodes, room for 256
    object(evd).post(event).run();
    object(evd).post(event).run();
    REQUIRE_OK(ia->evd_dequeue_func(evd, &out));
  }
  int count = 0;
  while (ia->evd_dequeue_func(ia.async, &out) == DAT_SUCCESS) ++count;
  BOOST_CHECK_EQUAL(count, 256);
}

// dat_evd_wait dequeues an event that is already there without becoming the waiter, but not from an
// unwaitable EVD.
BOOST_AUTO_TEST_CASE(unwaitable_evd_returns_no_queued_event_to_wait) {
  for (const unsigned flags : {kDto, kDto | kSoftware}) {
    const DAT_EVD_HANDLE evd = ia.evd(flags, 8);
    Completions completions(ia, evd);
    for (std::uint64_t i = 0; i < 3; ++i) completions.push(i);
    DAT_EVENT event{};
    DAT_COUNT more = 7;
    REQUIRE_OK(ia->evd_set_unwaitable_func(evd));
    CHECK_ERROR(ia->evd_wait_func(evd, 0, 1, &event, &more), DAT_INVALID_STATE);
    REQUIRE_OK(ia->evd_clear_unwaitable_func(evd));
    for (int left = 2; left >= 0; --left) {
      REQUIRE_OK(ia->evd_wait_func(evd, 0, 1, &event, &more));
      BOOST_CHECK_EQUAL(more, left);
    }
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(ia->evd_wait_func(evd, 0, 1, &event, &more)),
                      static_cast<DAT_RETURN>(DAT_TIMEOUT_EXPIRED));
  }
}

BOOST_AUTO_TEST_CASE(resize_keeps_queued_events) {
  const DAT_EVD_HANDLE evd = ia.evd(kDto | kSoftware, 8);
  Completions completions(ia, evd);
  for (std::uintptr_t i = 0; i < 4; ++i) REQUIRE_OK(ia.post(evd, i));
  for (std::uint64_t i = 0; i < 4; ++i) completions.push(i);
  CHECK_ERROR(ia->evd_resize_func(evd, 7), DAT_INVALID_STATE);
  CHECK_ERROR(ia->evd_resize_func(evd, 0), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->evd_resize_func(evd, 5000), DAT_INSUFFICIENT_RESOURCES);
  completions.cq().refuse_resize = true;
  CHECK_ERROR(ia->evd_resize_func(evd, 20), DAT_INSUFFICIENT_RESOURCES);
  completions.cq().refuse_resize = false;
  DAT_EVD_PARAM param{};
  REQUIRE_OK(ia->evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.evd_qlen, 8);

  REQUIRE_OK(ia->evd_resize_func(evd, 20));
  BOOST_CHECK_EQUAL(completions.cq().depth(), 20);
  for (std::uintptr_t i = 4; i < 20; ++i) REQUIRE_OK(ia.post(evd, i));
  CHECK_ERROR(ia.post(evd, 99), DAT_QUEUE_FULL);
  for (long i = 0; i < 20; ++i) BOOST_CHECK_EQUAL(ia.take(evd), i);
  DAT_EVENT event{};
  for (std::uint64_t i = 0; i < 4; ++i) {
    REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(cookie(event), i);
  }
  REQUIRE_OK(ia->evd_resize_func(evd, 1));
}

BOOST_AUTO_TEST_CASE(free_refuses_an_evd_in_use) {
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware);
  {
    const dapl::Use<dapl::Evd> use(&object(evd));
    CHECK_ERROR(ia->evd_free_func(evd), DAT_INVALID_STATE);
  }
  REQUIRE_OK(ia.post(evd));  // queued events are dropped
  REQUIRE_OK(ia->evd_free_func(evd));
  CHECK_ERROR(ia->evd_free_func(evd), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->evd_free_func(ia.async), DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
