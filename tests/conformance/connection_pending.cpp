// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "connecting.h"
#include "harness.h"
#include "peer.h"

#include <cstring>

// Connections that the passive side has accepted, or is about to, while the peer's process stands
// still or has been killed.
namespace conformance {

BOOST_AUTO_TEST_SUITE(connection)

BOOST_AUTO_TEST_CASE(conn_abort_completion_pending) {
  PairWithProcess with;
  Pair& pair = with.pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.passive.post_recv(buffer, 64, 1));
  const DAT_CR_HANDLE cr = with.start_and_take_cr();
  with.peer->stop();  // so that it cannot complete the connection
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  if (skip_unless(ep_state(pair.passive.ep) == DAT_EP_STATE_COMPLETION_PENDING,
                  "the state passes although the peer's process stands still"))
    return;
  REQUIRE_OK(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG));
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_dto(pair.passive.recv_evd, DAT_DTO_ERR_FLUSHED, 1);
  with.peer->resume();
  expect_silence(pair.passive.connect_evd);
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  with.peer->kill();
  pair.connect();
}

// A program may learn from its memory that the peer is connected, before this side has reported it.
// Where requests are taken already, they are carried out once the connection is established.
BOOST_AUTO_TEST_CASE(conn_requests_while_completion_pending) {
  constexpr DAT_SEG_LENGTH kHalf = 32;
  PairWithProcess with;
  Pair& pair = with.pair;
  Buffer out(pair.ia, pair.pz, 2 * kHalf);
  Buffer in(pair.ia, pair.pz, 2 * kHalf);
  out.fill(3);
  const DAT_CR_HANDLE cr = with.start_and_take_cr();
  with.peer->stop();
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  if (skip_unless(ep_state(pair.passive.ep) == DAT_EP_STATE_COMPLETION_PENDING,
                  "the state passes although the peer's process stands still"))
    return;
  DAT_LMR_TRIPLET second = out.local(kHalf, kHalf);
  DAT_RMR_TRIPLET behind = with.memory;
  behind.virtual_address += kHalf;
  behind.segment_length -= kHalf;
  const DAT_RETURN rc = dat_ep_post_rdma_write(pair.passive.ep, 1, &second, cookie(1), &behind,
                                               DAT_COMPLETION_DEFAULT_FLAG);
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_INVALID_STATE,
                  "the IA takes no requests before ESTABLISHED"))
    return;
  REQUIRE_OK(rc);
  REQUIRE_OK(pair.passive.post_send(out, kHalf, 2));
  DAT_RMR_TRIPLET both = with.memory;
  both.segment_length = 2 * kHalf;
  REQUIRE_OK(pair.passive.post_read(in, both, 3));
  with.peer->resume();
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  for (std::uint64_t i = 1; i <= 3; ++i) expect_dto(pair.passive.request_evd, DAT_DTO_SUCCESS, i);
  BOOST_CHECK(std::memcmp(in.bytes.data(), out.bytes.data(), 2 * kHalf) == 0);
}

BOOST_AUTO_TEST_CASE(conn_requests_of_a_failed_accept) {
  PairWithProcess with;
  Pair& pair = with.pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  const DAT_CR_HANDLE cr = with.start_and_take_cr();
  with.peer->stop();
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  const DAT_RETURN rc = pair.passive.post_send(buffer, 64, 1);
  if (skip_unless(rc == DAT_SUCCESS && ep_state(pair.passive.ep) == DAT_EP_STATE_COMPLETION_PENDING,
                  "the IA takes no requests before ESTABLISHED"))
    return;
  with.peer->kill();
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
  expect_dto(pair.passive.request_evd, DAT_DTO_ERR_FLUSHED, 1);
}

BOOST_AUTO_TEST_CASE(conn_peer_killed_before_accept, *covers("conn_accept_after_peer_timeout")) {
  PairWithProcess with;
  Pair& pair = with.pair;
  const DAT_CR_HANDLE cr = with.start_and_take_cr();
  with.peer->kill();
  if (dat_cr_accept(cr, pair.passive.ep, 0, nullptr) == DAT_SUCCESS) {
    const auto event = next_event(pair.passive.connect_evd);
    BOOST_REQUIRE(event);
    BOOST_CHECK_EQUAL(event->event_number, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  } else {
    REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
  }
  pair.connect();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
