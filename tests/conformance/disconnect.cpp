// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"
#include "peer.h"

#include <thread>

// Disconnecting and resetting: section 10.8 of the checklist (checklist.cpp), whose names the tests
// have.
namespace conformance {

BOOST_AUTO_TEST_SUITE(disconnect)

BOOST_AUTO_TEST_CASE(disc_abrupt_both_sides) {
  Pair pair;
  pair.connect();
  pair.disconnect(DAT_CLOSE_ABRUPT_FLAG);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_DISCONNECTED);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_DISCONNECTED);
  expect_silence(pair.active.connect_evd);
  expect_silence(pair.passive.connect_evd);
}

BOOST_AUTO_TEST_CASE(disc_graceful_drains, *covers("ofa_1_graceful ofa_2_3_20_graceful_waits")) {
  Pair pair;
  constexpr std::size_t kSize = 1U << 20;
  constexpr int kCount = 8;
  Buffer out(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, kSize);
  Buffer sink(pair.ia, pair.pz, kSize);
  out.fill(1);
  pair.connect();
  for (std::uint64_t i = 0; i < kCount; ++i) REQUIRE_OK(pair.passive.post_recv(in, kSize, i));
  for (std::uint64_t i = 0; i < kCount; ++i) REQUIRE_OK(pair.active.post_send(out, kSize, i));
  REQUIRE_OK(pair.active.post_read(sink, in.remote(kSize), kCount));
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  for (std::uint64_t i = 0; i <= kCount; ++i)
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
  for (std::uint64_t i = 0; i < kCount; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

// The request EVD is as long as the EP's queue, and full: whatever the provider needs for the
// disconnect finds room elsewhere.
BOOST_AUTO_TEST_CASE(disc_graceful_full_evd) {
  Pair pair;
  constexpr DAT_COUNT kCount = 15;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  attr.max_request_dtos = kCount;
  REQUIRE_OK(dat_ep_free(pair.active.ep.release()));
  pair.active.request_evd = make_evd(pair.ia, DAT_EVD_DTO_FLAG, kCount);
  REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, pair.active.recv_evd, pair.active.request_evd,
                           pair.active.connect_evd, &attr, pair.active.ep.out()));
  pair.connect();
  for (std::uint64_t i = 0; i < kCount; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  for (std::uint64_t i = 0; i < kCount; ++i) REQUIRE_OK(pair.active.post_send(out, 8, i));
  for (std::uint64_t i = 0; i < kCount; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the sends have completed
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  for (std::uint64_t i = 0; i < kCount; ++i)
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
  expect_silence(pair.ia.async_evd);
}

BOOST_AUTO_TEST_CASE(disc_graceful_no_new, *covers("disc_graceful_twice")) {
  Pair pair;
  constexpr std::size_t kSize = 8U << 20;
  Buffer out(pair.ia, pair.pz, kSize);
  Buffer sink(pair.ia, pair.pz, kSize);
  pair.connect();
  // A read of this size usually keeps the EP draining long enough to be observed.
  REQUIRE_OK(pair.active.post_read(sink, out.remote(kSize), 1));
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  const DAT_RETURN rc = pair.active.post_send(out, 8, 2);
  const DAT_EP_STATE state = ep_state(pair.active.ep);
  if (rc == DAT_SUCCESS)
    BOOST_CHECK_EQUAL(state, DAT_EP_STATE_DISCONNECTED);  // it had drained, so the post is flushed
  else
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(rc), static_cast<DAT_RETURN>(DAT_INVALID_STATE));
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG));  // disc_graceful_twice
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_silence(pair.active.connect_evd);
}

BOOST_AUTO_TEST_CASE(disc_flushes_recvs) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  for (std::uint64_t i = 0; i < 8; ++i) {
    REQUIRE_OK(pair.active.post_recv(buffer, 64, i));
    REQUIRE_OK(pair.passive.post_recv(buffer, 64, i));
  }
  pair.disconnect();
  for (End* const end : {&pair.active, &pair.passive})
    for (std::uint64_t i = 0; i < 8; ++i) {
      const auto flushed = expect_dto(end->recv_evd, DAT_DTO_ERR_FLUSHED, i);
      BOOST_CHECK_EQUAL(flushed.operation, DAT_DTO_RECEIVE);
      BOOST_CHECK_EQUAL(flushed.transfered_length, 0U);
    }
}

BOOST_AUTO_TEST_CASE(disc_when_disconnected) {
  Pair pair;
  pair.connect();
  pair.disconnect();
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
  REQUIRE_OK(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_GRACEFUL_FLAG));
  expect_silence(pair.active.connect_evd);
  expect_silence(pair.passive.connect_evd);
}

BOOST_AUTO_TEST_CASE(disc_invalid_states) {
  Pair pair;
  CHECK_TYPE(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_STATE);
  Rsp rsp;
  REQUIRE_OK(dat_rsp_create(pair.ia, fresh_conn_qual(), pair.passive.ep, pair.cr_evd, rsp.out()));
  CHECK_TYPE(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_STATE);
  REQUIRE_OK(dat_rsp_free(rsp.release()));
  pair.connect();
  // Every flag value other than graceful means abrupt.
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, not_an_enumerator<DAT_CLOSE_FLAGS>(6)));
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_DISCONNECTED);
}

BOOST_AUTO_TEST_CASE(disc_simultaneous) {
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    pair.connect();
    std::thread other([&] { dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG); });
    REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    other.join();
    expect_connection_end(pair.active.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
    BOOST_CHECK(!next_event(pair.active.connect_evd, kMillisecond));
    BOOST_CHECK(!next_event(pair.passive.connect_evd, kMillisecond));
  }
}

BOOST_AUTO_TEST_CASE(disc_success_before_event) {
  Ia ia;
  if (skip_unless(ia.provider().evd_stream_merging_supported[2][3] == DAT_TRUE,
                  "DTO and connection streams cannot share an EVD"))
    return;
  const Pz pz = make_pz(ia);
  const Evd cr_evd = make_evd(ia, DAT_EVD_CR_FLAG, 8);
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  Psp psp;
  REQUIRE_OK(dat_psp_create(ia, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
  const auto all = static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
  const Evd active_evd = make_evd(ia, all);
  const Evd passive_evd = make_evd(ia, all);
  Ep active;
  Ep passive;
  REQUIRE_OK(dat_ep_create(ia, pz, active_evd, active_evd, active_evd, nullptr, active.out()));
  REQUIRE_OK(dat_ep_create(ia, pz, passive_evd, passive_evd, passive_evd, nullptr, passive.out()));
  Buffer out(ia, pz, 64);
  Buffer in(ia, pz, 64);
  DAT_LMR_TRIPLET sent = out.local();
  DAT_LMR_TRIPLET received = in.local();
  constexpr std::uint64_t kCount = 8;
  for (std::uint64_t i = 0; i < kCount; ++i)
    REQUIRE_OK(dat_ep_post_recv(passive, 1, &received, cookie(i), DAT_COMPLETION_DEFAULT_FLAG));
  REQUIRE_OK(dat_ep_connect(active, ia.attr.ia_address_ptr, conn_qual, kPatience, 0, nullptr,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT request = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  REQUIRE_OK(
      dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, passive, 0, nullptr));
  expect_event(active_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  for (std::uint64_t i = 0; i < kCount; ++i)
    REQUIRE_OK(dat_ep_post_send(active, 1, &sent, cookie(i), DAT_COMPLETION_DEFAULT_FLAG));
  REQUIRE_OK(dat_ep_disconnect(active, DAT_CLOSE_GRACEFUL_FLAG));
  // One EVD delivers ESTABLISHED first, then the receives, then the end of the connection.
  expect_event(passive_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  for (std::uint64_t i = 0; i < kCount; ++i) expect_dto(passive_evd, DAT_DTO_SUCCESS, i);
  expect_event(passive_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  for (std::uint64_t i = 0; i < kCount; ++i) expect_dto(active_evd, DAT_DTO_SUCCESS, i);
  expect_event(active_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

BOOST_AUTO_TEST_CASE(disc_no_success_after_failure) {
  Pair pair;
  constexpr std::size_t kSize = 1U << 20;
  Buffer out(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, kSize);
  pair.connect();
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE_OK(pair.passive.post_recv(in, kSize, i));
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE_OK(pair.active.post_send(out, kSize, i));
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
  for (const DAT_EVD_HANDLE evd :
       {DAT_EVD_HANDLE(pair.active.request_evd), DAT_EVD_HANDLE(pair.passive.recv_evd)}) {
    bool failed = false;
    for (std::uint64_t i = 0; i < 16; ++i) {
      const DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
      const auto& dto = event.event_data.dto_completion_event_data;
      BOOST_CHECK_EQUAL(dto.user_cookie.as_64, i);
      if (dto.status != DAT_DTO_SUCCESS) failed = true;
      BOOST_CHECK(!failed || dto.status != DAT_DTO_SUCCESS);
    }
  }
  // An end in the middle of a message is orderly, too.
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

BOOST_AUTO_TEST_CASE(disc_marker) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(pair.passive.post_recv(buffer, 64, i));
  REQUIRE_OK(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG));
  constexpr std::uint64_t kMarker = 1000;
  REQUIRE_OK(pair.passive.post_recv(buffer, 64, kMarker));
  REQUIRE_OK(pair.passive.post_send(buffer, 64, kMarker));
  for (std::uint64_t i = 0; i < 8; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_ERR_FLUSHED, i);
  expect_dto(pair.passive.recv_evd, DAT_DTO_ERR_FLUSHED, kMarker);
  expect_dto(pair.passive.request_evd, DAT_DTO_ERR_FLUSHED, kMarker);
  expect_connection_end(pair.active.connect_evd);
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  expect_silence(pair.passive.recv_evd);
}

BOOST_AUTO_TEST_CASE(disc_peer_killed) {
  PairWithProcess with;
  Pair& pair = with.pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(pair.passive.post_recv(buffer, 64, i));
  with.connect_stalled();
  REQUIRE_OK(with.post_stalled_send(10));  // outstanding when the peer dies
  DAT_RMR_TRIPLET part = with.memory;
  part.segment_length = 64;
  REQUIRE_OK(pair.passive.post_write(buffer, part, 11));
  with.peer->kill();
  expect_connection_end(pair.passive.connect_evd);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_DISCONNECTED);
  for (std::uint64_t i = 0; i < 4; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_ERR_FLUSHED, i);
  for (const std::uint64_t value : {10U, 11U}) {
    const DAT_EVENT event = expect_event(pair.passive.request_evd, DAT_DTO_COMPLETION_EVENT);
    BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.user_cookie.as_64, value);
    BOOST_CHECK_NE(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
  }
  expect_silence(pair.passive.connect_evd);
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  pair.connect();
}

BOOST_AUTO_TEST_CASE(ep_reset_states, *covers("ep_reset_unconnected")) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  out.fill(1);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));  // ep_reset_unconnected: a no-op, the receive stays
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  CHECK_TYPE(dat_ep_reset(pair.active.ep), DAT_INVALID_STATE);
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  CHECK_TYPE(dat_ep_reset(pair.active.ep), DAT_INVALID_STATE);
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
}

BOOST_AUTO_TEST_CASE(ep_reset_reconnect) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  for (std::uint8_t round = 1; round < 6; ++round) {
    pair.connect();
    out.fill(round);
    REQUIRE_OK(pair.passive.post_recv(in, 64, round));
    REQUIRE_OK(pair.active.post_send(out, 64, round));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, round);
    BOOST_CHECK(in.holds(round, 64));
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, round);
    pair.disconnect(round % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
    BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_UNCONNECTED);
  }
}

BOOST_AUTO_TEST_CASE(ep_free_connected) {
  Pair pair;
  pair.connect();
  REQUIRE_OK(dat_ep_free(pair.passive.ep.release()));
  expect_connection_end(pair.active.connect_evd);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
