// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <thread>

// Data transfer: which completions create events, and which events wake a waiter.
namespace conformance {

namespace {

// Sends a message with these flags: both completions are queued, and a waiter for the receive keeps
// sleeping.
void expect_no_wake(Pair& pair, DAT_COMPLETION_FLAGS flags) {
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_EVENT event;
  DAT_COUNT more = -1;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  Sleeper sleeper;
  std::thread waiter([&] {
    sleeper.announce();
    waited = dat_evd_wait(pair.passive.recv_evd, 2000 * kMillisecond, 1, &event, &more);
  });
  sleeper.until_asleep();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1, flags));
  REQUIRE_OK(pair.active.post_send(out, 64, 2, flags));
  waiter.join();
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(waited), static_cast<DAT_RETURN>(DAT_TIMEOUT_EXPIRED));
  BOOST_CHECK_EQUAL(more, 1);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transfer)

BOOST_AUTO_TEST_CASE(dto_suppress_success) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  // Many more than the depth of the queue: slots of suppressed requests are released automatically.
  for (std::uint64_t i = 0; i < 200; ++i) {
    REQUIRE_OK(pair.passive.post_recv(in, 64, i));
    REQUIRE_OK(pair.active.post_send(out, 64, i, DAT_COMPLETION_SUPPRESS_FLAG));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
  }
  expect_silence(pair.active.request_evd);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(pair.active.post_send(out, 64, 999));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 999);
}

// The queue is sized for the events that the program sees, one at a time. Suppressed requests must
// not fill it.
BOOST_AUTO_TEST_CASE(dto_suppress_small_queue, *covers("dto_suppress_success")) {
  Pair pair;
  const auto burst = static_cast<std::uint64_t>(query_ep(pair.active.ep).ep_attr.max_request_dtos);
  REQUIRE_OK(dat_evd_resize(pair.active.request_evd, 1));
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  for (int round = 0; round < 4; ++round) {
    for (std::uint64_t i = 1; i < burst; ++i)
      REQUIRE_OK(pair.active.post_write(out, in.remote(64), i, DAT_COMPLETION_SUPPRESS_FLAG));
    REQUIRE_OK(pair.active.post_write(out, in.remote(64), burst));
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, burst);
  }
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_CONNECTED);
}

BOOST_AUTO_TEST_CASE(dto_suppress_failure) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  pair.disconnect();
  REQUIRE_OK(pair.active.post_send(buffer, 64, 1, DAT_COMPLETION_SUPPRESS_FLAG));
  expect_dto(pair.active.request_evd, DAT_DTO_ERR_FLUSHED, 1);
}

// Without the attribute the flag is ignored: the completions notify.
BOOST_AUTO_TEST_CASE(dto_unsignalled_requires_attr) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_EVENT event;
  DAT_COUNT more = 0;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  Sleeper sleeper;
  std::thread waiter([&] {
    sleeper.announce();
    waited = dat_evd_wait(pair.passive.recv_evd, kPatience, 1, &event, &more);
  });
  sleeper.until_asleep();
  REQUIRE_OK(pair.passive.post_recv(buffer, 64, 1, DAT_COMPLETION_UNSIGNALLED_FLAG));
  REQUIRE_OK(pair.active.post_send(buffer, 64, 2, DAT_COMPLETION_UNSIGNALLED_FLAG));
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(dto_unsignalled_then_signal) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  Pair pair(&attr);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  for (std::uint64_t i = 0; i < 3; ++i)
    REQUIRE_OK(pair.active.post_send(out, 64, i, DAT_COMPLETION_UNSIGNALLED_FLAG));
  for (std::uint64_t i = 0; i < 3; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
  // A waiter sleeps through them or finds them queued at entry. The wait returns the oldest and
  // counts the others.
  REQUIRE_OK(pair.active.post_send(out, 64, 3));
  DAT_EVENT event;
  DAT_COUNT more = 0;
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 3);
  REQUIRE_OK(dat_evd_wait(pair.active.request_evd, kPatience, 1, &event, &more));
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.user_cookie.as_64, 0U);
  for (std::uint64_t i = 1; i < 4; ++i) expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
}

// A completion that does not notify is queued, and the waiter keeps sleeping.
BOOST_AUTO_TEST_CASE(dto_unsignalled_no_wake) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  Pair pair(&attr);
  expect_no_wake(pair, DAT_COMPLETION_UNSIGNALLED_FLAG);
}

BOOST_AUTO_TEST_CASE(dto_solicited_no_wake) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  Pair pair(&attr);
  expect_no_wake(pair, DAT_COMPLETION_DEFAULT_FLAG);
}

BOOST_AUTO_TEST_CASE(dto_solicited_wake, *covers("dto_solicited_threshold")) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  Pair pair(&attr);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(pair.passive.post_recv(in, 64, 2));
  DAT_EVENT event;
  DAT_COUNT more = 0;
  CHECK_TYPE_OR(dat_evd_wait(pair.passive.recv_evd, 0, 2, &event, &more), DAT_INVALID_STATE,
                DAT_INVALID_PARAMETER);  // dto_solicited_threshold
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::thread waiter(
      [&] { waited = dat_evd_wait(pair.passive.recv_evd, kPatience, 1, &event, &more); });
  REQUIRE_OK(pair.active.post_send(out, 64, 3));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3);
  REQUIRE_OK(pair.active.post_send(out, 64, 4, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.user_cookie.as_64, 1U);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(dto_threshold_batch) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  constexpr DAT_COUNT kBatch = 12;
  for (DAT_COUNT i = 0; i < kBatch; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  DAT_EVENT event;
  DAT_COUNT more = 0;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::thread waiter(
      [&] { waited = dat_evd_wait(pair.passive.recv_evd, kPatience, kBatch, &event, &more); });
  for (DAT_COUNT i = 0; i < kBatch; ++i) REQUIRE_OK(pair.active.post_send(out, 64, i));
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_EQUAL(more, kBatch - 1);
}

// Flags that do not apply to receives are ignored: the event arrives.
BOOST_AUTO_TEST_CASE(dto_recv_flags_invalid) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  std::uint64_t value = 0;
  for (const auto flag : {DAT_COMPLETION_SUPPRESS_FLAG, DAT_COMPLETION_SOLICITED_WAIT_FLAG,
                          DAT_COMPLETION_BARRIER_FENCE_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG,
                          not_an_enumerator<DAT_COMPLETION_FLAGS>(0xffffffff)}) {
    REQUIRE_OK(pair.passive.post_recv(in, 64, ++value, flag));
    REQUIRE_OK(pair.active.post_send(out, 64, value));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, value);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, value);
  }
}

// Tests an EP without DTO EVDs. Returns false if the provider refuses to create one.
bool check_null_evds(const DAT_EP_ATTR* attributes) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  Buffer sink(pair.ia, pair.pz, 64);
  out.fill(3);
  const Evd connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
  Ep silent;  // reports no completions
  const DAT_RETURN rc = dat_ep_create(pair.ia, pair.pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                                      connect_evd, attributes, silent.out());
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_INVALID_PARAMETER,
                  "DTOs without an EVD are refused here"))
    return false;
  REQUIRE_OK(rc);
  for (int i = 0; i < 4; ++i) {
    DAT_LMR_TRIPLET segment = in.local();
    REQUIRE_OK(dat_ep_post_recv(silent, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
  }
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  REQUIRE_OK(dat_cr_accept(cr, silent, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(pair.active.post_send(out, 64, 1));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  REQUIRE_OK(
      pair.active.post_read(sink, in.remote(64), 2));  // completes after the send has been placed
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK(in.holds(3, 64));
  // More requests than the EP has slots: discarded completions release the slots.
  for (int i = 0; i < 100; ++i) {
    REQUIRE_OK(pair.active.post_recv(sink, 64, 3));
    DAT_LMR_TRIPLET segment = in.local();
    REQUIRE_OK(dat_ep_post_send(silent, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    expect_dto(pair.active.recv_evd, DAT_DTO_SUCCESS, 3);
  }
  return true;
}

BOOST_AUTO_TEST_CASE(dto_null_evd_discards) {
  const DAT_EP_ATTR attr = default_ep_attr(Ia());
  if (check_null_evds(&attr)) check_null_evds(nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
