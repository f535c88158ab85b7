// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "partner.h"

#include <unistd.h>

// Two processes: how their connections end. See remote.cpp.
namespace conformance {

namespace {

constexpr std::size_t kLarge = 1U << 20;

void expect_reset_by_peer(const Side& side) {
  side.expect_end_and_reset();
  BOOST_CHECK_EQUAL(ep_state(side.end.ep), DAT_EP_STATE_UNCONNECTED);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(remote)

BOOST_AUTO_TEST_CASE(rem_graceful_drains) {
  Side side;
  constexpr int kMessages = 8;
  Buffer buffer(side.ia, side.pz, kLarge);
  if (!side.driver)
    for (int i = 0; i < kMessages; ++i)
      REQUIRE_OK(side.end.post_recv(buffer, kLarge, static_cast<std::uint64_t>(i)));
  side.connect();
  side.sync();
  if (side.driver) {
    for (int i = 0; i < kMessages; ++i)
      REQUIRE_OK(side.end.post_send(buffer, kLarge, static_cast<std::uint64_t>(i)));
    REQUIRE_OK(dat_ep_disconnect(side.end.ep, DAT_CLOSE_GRACEFUL_FLAG));
  }
  const Evd& evd = side.driver ? side.end.request_evd : side.end.recv_evd;
  for (int i = 0; i < kMessages; ++i)
    expect_dto(evd, DAT_DTO_SUCCESS, static_cast<std::uint64_t>(i));
  expect_event(side.end.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_abrupt_flushes) {
  Side side;
  Buffer buffer(side.ia, side.pz, 64);
  REQUIRE_OK(side.end.post_recv(buffer, 64, 11));
  side.connect();
  side.sync();
  if (side.driver) REQUIRE_OK(dat_ep_disconnect(side.end.ep, DAT_CLOSE_ABRUPT_FLAG));
  expect_reset_by_peer(side);
  expect_dto(side.end.recv_evd, DAT_DTO_ERR_FLUSHED, 11);
  side.connect();  // the EPs can be used again
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_simultaneous_disconnect) {
  const Side side;
  for (int round = 0; round < 20; ++round) {
    side.connect();
    side.sync();
    REQUIRE_OK(dat_ep_disconnect(side.end.ep, DAT_CLOSE_ABRUPT_FLAG));
    expect_reset_by_peer(side);
    expect_silence(side.end.connect_evd);
    side.sync();
  }
}

BOOST_AUTO_TEST_CASE(rem_many_connections) {
  const Side side;
  for (int round = 0; round < 100; ++round) {
    side.connect();
    if (side.driver == (round % 2 == 0))
      REQUIRE_OK(dat_ep_disconnect(side.end.ep, DAT_CLOSE_GRACEFUL_FLAG));
    expect_reset_by_peer(side);
    side.sync();
  }
}

BOOST_AUTO_TEST_CASE(rem_process_killed) {
  Side side;
  Buffer buffer(side.ia, side.pz, 64);
  REQUIRE_OK(side.end.post_recv(buffer, 64, 4));
  side.expect_no_result();
  side.connect();
  side.sync();
  if (!side.driver) ::_exit(0);  // only the system closes anything
  expect_connection_end(side.end.connect_evd);
  expect_dto(side.end.recv_evd, DAT_DTO_ERR_FLUSHED, 4);
}

BOOST_AUTO_TEST_CASE(rem_ia_closed) {
  Side side;
  side.connect();
  side.sync();
  if (side.driver) {
    expect_connection_end(side.end.connect_evd);
  } else {
    REQUIRE_OK(side.ia.close(DAT_CLOSE_ABRUPT_FLAG));
    for (Evd* const evd :
         {&side.end.recv_evd, &side.end.request_evd, &side.end.connect_evd, &side.cr_evd})
      evd->release();
    side.end.ep.release();
    side.psp.release();
    side.pz.release();
  }
  side.sync();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
