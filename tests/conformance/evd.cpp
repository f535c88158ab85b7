// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "threads.h"

#include <algorithm>
#include <atomic>
#include <vector>

// Event dispatchers, except for waiting (evd_wait.cpp): section 10.4 of the checklist
// (checklist.cpp), whose names the tests have.
namespace conformance {

namespace {

constexpr DAT_EVD_FLAGS kStreams[] = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_CR_FLAG,
                                      DAT_EVD_DTO_FLAG,      DAT_EVD_CONNECTION_FLAG,
                                      DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};
constexpr int kConsumerStreams =
    5;  // all but ASYNC, which not every provider lets a consumer create

}  // namespace

BOOST_AUTO_TEST_SUITE(evd)

BOOST_AUTO_TEST_CASE(evd_create_each_flag) {
  Ia ia;
  for (int i = 0; i < kConsumerStreams; ++i) make_evd(ia, kStreams[i], 8);
}

BOOST_AUTO_TEST_CASE(evd_create_merge, *covers("evd_create_merge_ok evd_create_merge_bad")) {
  Ia ia;
  for (int i = 0; i < kConsumerStreams; ++i)
    for (int j = 0; j < kConsumerStreams; ++j) {
      if (i == j) continue;
      const auto both = static_cast<DAT_EVD_FLAGS>(kStreams[i] | kStreams[j]);
      Evd evd;
      const DAT_RETURN rc = dat_evd_create(ia, 8, DAT_HANDLE_NULL, both, evd.out());
      if (ia.provider().evd_stream_merging_supported[i][j] == DAT_TRUE)
        REQUIRE_OK(rc);
      else
        CHECK_TYPE(rc, DAT_INVALID_PARAMETER);
    }
}

BOOST_AUTO_TEST_CASE(evd_create_bad, *covers("evd_create_qlen_bad evd_create_qlen_huge")) {
  Ia ia;
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  CHECK_TYPE(dat_evd_create(ia, 0, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_create(ia, -1, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, nullptr),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_create(ia, ia.attr.max_evd_qlen + 1, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
             DAT_INSUFFICIENT_RESOURCES);
  const Pz pz = make_pz(ia);
  CHECK_TYPE(dat_evd_create(ia, 8, static_cast<DAT_CNO_HANDLE>(DAT_PZ_HANDLE(pz)),
                            DAT_EVD_SOFTWARE_FLAG, &evd),
             DAT_INVALID_HANDLE);
  // Programs that have not set the handle free it unless it is null.
  evd = static_cast<DAT_EVD_HANDLE>(DAT_PZ_HANDLE(pz));
  CHECK_TYPE(dat_evd_create(ia, 0, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd), DAT_INVALID_PARAMETER);
  BOOST_CHECK(evd == DAT_HANDLE_NULL);
}

// No stream at all, and bits that name no stream.
BOOST_AUTO_TEST_CASE(evd_create_flags) {
  Ia ia;
  for (const unsigned flags : {0U, 0x2U, 0x400U, 0x421U, 0xfffffe00U}) {
    Evd evd;
    REQUIRE_OK(
        dat_evd_create(ia, 8, DAT_HANDLE_NULL, not_an_enumerator<DAT_EVD_FLAGS>(flags), evd.out()));
    BOOST_CHECK_EQUAL(static_cast<unsigned>(query_evd(evd).evd_flags), flags);
    DAT_EVENT event;
    CHECK_TYPE(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
  }
}

BOOST_AUTO_TEST_CASE(evd_query_initial) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 13);
  const DAT_EVD_PARAM param = query_evd(evd);
  BOOST_CHECK(param.ia_handle == ia.handle);
  BOOST_CHECK_GE(param.evd_qlen, 13);
  BOOST_CHECK(param.cno_handle == DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(param.evd_flags, DAT_EVD_SOFTWARE_FLAG);
  BOOST_CHECK(param.evd_state & DAT_EVD_STATE_ENABLED);
  BOOST_CHECK(param.evd_state & DAT_EVD_STATE_WAITABLE);
  CHECK_TYPE(dat_evd_query(evd, DAT_EVD_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(evd_dequeue_empty) {
  Ia ia;
  const Evd software = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  const Evd dto = make_evd(ia, DAT_EVD_DTO_FLAG, 8);
  DAT_EVENT event;
  CHECK_TYPE(dat_evd_dequeue(software, &event), DAT_QUEUE_EMPTY);
  CHECK_TYPE(dat_evd_dequeue(dto, &event), DAT_QUEUE_EMPTY);
  CHECK_TYPE(dat_evd_dequeue(dto, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(evd_dequeue_order, *covers("evd_post_se_ok")) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  for (std::uintptr_t i = 0; i < 8; ++i) REQUIRE_OK(post_software(evd, i));
  DAT_EVENT event;
  for (std::uintptr_t i = 0; i < 8; ++i) {
    REQUIRE_OK(dat_evd_dequeue(evd, &event));
    BOOST_CHECK_EQUAL(number_of(event), i);
    BOOST_CHECK(event.evd_handle == evd);  // evd_post_se_ok
  }
}

BOOST_AUTO_TEST_CASE(evd_dequeue_when_disabled) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  REQUIRE_OK(dat_evd_disable(evd));
  REQUIRE_OK(dat_evd_set_unwaitable(evd));
  const DAT_EVD_STATE state = query_evd(evd).evd_state;
  BOOST_CHECK(state & DAT_EVD_STATE_DISABLED);
  BOOST_CHECK(state & DAT_EVD_STATE_UNWAITABLE);
  REQUIRE_OK(post_software(evd, 1));
  DAT_EVENT event;
  REQUIRE_OK(dat_evd_dequeue(evd, &event));
}

BOOST_AUTO_TEST_CASE(evd_resize_grow) {
  Ia ia;
  for (const DAT_EVD_FLAGS flag : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    const Evd evd = make_evd(ia, static_cast<DAT_EVD_FLAGS>(flag | DAT_EVD_SOFTWARE_FLAG), 8);
    for (std::uintptr_t i = 0; i < 8; ++i) REQUIRE_OK(post_software(evd, i));
    REQUIRE_OK(dat_evd_resize(evd, 100));
    BOOST_CHECK_GE(query_evd(evd).evd_qlen, 100);
    for (std::uintptr_t i = 8; i < 100; ++i) REQUIRE_OK(post_software(evd, i));
    DAT_EVENT event;
    for (std::uintptr_t i = 0; i < 100; ++i) {
      REQUIRE_OK(dat_evd_dequeue(evd, &event));
      BOOST_CHECK_EQUAL(number_of(event), i);
    }
    CHECK_TYPE(dat_evd_resize(evd, 0), DAT_INVALID_PARAMETER);
  }
}

BOOST_AUTO_TEST_CASE(evd_resize_below_count) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 16);
  for (std::uintptr_t i = 0; i < 10; ++i) REQUIRE_OK(post_software(evd, i));
  const DAT_RETURN rc = dat_evd_resize(evd, 4);
  BOOST_CHECK(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_INVALID_STATE);
  BOOST_CHECK_GE(query_evd(evd).evd_qlen, 10);
  BOOST_CHECK_EQUAL(drain(evd), 10);
}

BOOST_AUTO_TEST_CASE(evd_post_se_refused, *covers("evd_post_se_wrong_number evd_post_se_no_flag")) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  DAT_EVENT wrong = software_event(1);
  wrong.event_number = DAT_DTO_COMPLETION_EVENT;
  CHECK_TYPE(dat_evd_post_se(evd, &wrong), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_post_se(evd, nullptr), DAT_INVALID_PARAMETER);
  const Evd connection = make_evd(ia, DAT_EVD_CONNECTION_FLAG, 8);
  CHECK_TYPE(post_software(connection, 1), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(evd_post_se_full) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  const DAT_COUNT qlen = query_evd(evd).evd_qlen;
  for (DAT_COUNT i = 0; i < qlen; ++i) REQUIRE_OK(post_software(evd, 1));
  CHECK_TYPE(post_software(evd, 2), DAT_QUEUE_FULL);
  BOOST_CHECK_EQUAL(drain(evd), qlen);
  expect_silence(ia.async_evd);  // no event was lost
}

// docs/compatibility.md C164: devices round up, so programs that count too few events work.
BOOST_AUTO_TEST_CASE(evd_with_too_few_events) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.max_recv_dtos = 24;
  Pair pair(&attr);
  const Evd evd = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 16);
  DAT_EP_PARAM param{};
  param.recv_evd_handle = evd;
  REQUIRE_OK(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &param));
  Buffer buffer(pair.ia, pair.pz, 64);
  for (std::uint64_t i = 0; i < 24; ++i) REQUIRE_OK(pair.active.post_recv(buffer, 64, i));
  pair.connect();
  pair.disconnect();
  for (std::uint64_t i = 0; i < 24; ++i) expect_dto(evd, DAT_DTO_ERR_FLUSHED, i);
  BOOST_CHECK(!next_event(pair.ia.async_evd, 0));
  REQUIRE_OK(dat_ep_free(pair.active.ep.release()));
}

BOOST_AUTO_TEST_CASE(evd_overflow_async) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  const Evd tiny = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 1);
  const DAT_COUNT qlen = query_evd(tiny).evd_qlen;
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  attr.max_recv_dtos = std::min(qlen + kSpareEntries, pair.ia.attr.max_dto_per_ep);
  if (skip_unless(qlen < attr.max_recv_dtos, "the smallest EVD cannot be made to overflow")) return;
  Ep ep;
  REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, tiny, pair.passive.request_evd,
                           pair.passive.connect_evd, &attr, ep.out()));
  DAT_LMR_TRIPLET segment = in.local();
  for (DAT_COUNT i = 0; i < attr.max_recv_dtos; ++i)
    REQUIRE_OK(dat_ep_post_recv(ep, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  REQUIRE_OK(dat_cr_accept(cr, ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  send_many(pair.active, out, attr.max_recv_dtos);
  const auto event = next_event(pair.ia.async_evd);
  if (!event) {
    // A provider that scans idle queues keeps what it finds: on a slow machine nothing overflows.
    BOOST_CHECK_EQUAL(drain(tiny), attr.max_recv_dtos);
    return;
  }
  BOOST_CHECK_EQUAL(event->event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
  BOOST_CHECK(event->event_data.asynch_error_event_data.dat_handle == tiny);
}

// What is flushed when a connected EP is freed makes no events, so it needs no room.
BOOST_AUTO_TEST_CASE(evd_no_overflow_of_a_freed_ep, *covers("evd_overflow_async")) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  const Evd tiny = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 1);
  End first;
  first.connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
  REQUIRE_OK(
      dat_ep_create(pair.ia, pair.pz, tiny, tiny, first.connect_evd, nullptr, first.ep.out()));
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE_OK(first.post_recv(buffer, 64, i));
  pair.connect(first, pair.passive);
  REQUIRE_OK(dat_ep_free(first.ep.release()));
  expect_connection_end(pair.passive.connect_evd);
  expect_silence(pair.ia.async_evd);
  // The EVD still serves another EP.
  REQUIRE_OK(
      dat_ep_create(pair.ia, pair.pz, tiny, tiny, first.connect_evd, nullptr, first.ep.out()));
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  REQUIRE_OK(first.post_recv(buffer, 64, 1));
  pair.connect(first, pair.passive);
  REQUIRE_OK(pair.passive.post_send(buffer, 64, 2));
  expect_dto(tiny, DAT_DTO_SUCCESS, 1);
  REQUIRE_OK(dat_ep_free(first.ep.release()));
}

BOOST_AUTO_TEST_CASE(evd_free_busy, *covers("evd_free_async")) {
  Pair pair;
  CHECK_TYPE(dat_evd_free(pair.active.recv_evd), DAT_INVALID_STATE);
  CHECK_TYPE(dat_evd_free(pair.active.request_evd), DAT_INVALID_STATE);
  CHECK_TYPE(dat_evd_free(pair.active.connect_evd), DAT_INVALID_STATE);
  CHECK_TYPE(dat_evd_free(pair.cr_evd), DAT_INVALID_STATE);
  CHECK_TYPE(dat_evd_free(pair.ia.async_evd), DAT_INVALID_STATE);  // evd_free_async
}

BOOST_AUTO_TEST_CASE(evd_dequeue_exactly_once) {
  Ia ia;
  constexpr std::uintptr_t kCount = 4000;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, kCount);
  for (int round = 0; round < 200; ++round) {
    for (std::uintptr_t i = 0; i < kCount; ++i) REQUIRE_OK(post_software(evd, i));
    std::vector<std::atomic<int>> times(kCount);
    std::atomic<std::uintptr_t> strange{0};
    in_threads(4, [&](int) {
      DAT_EVENT event;
      while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
        const std::uintptr_t number = number_of(event);
        if (number < kCount)
          ++times[number];
        else
          ++strange;
      }
    });
    BOOST_CHECK_EQUAL(strange, 0U);
    BOOST_CHECK_EQUAL(std::count(times.begin(), times.end(), 1), kCount);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
