// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_ep_reset, and devices that flush the posted work only after the event of the connection's
// end.
#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {
namespace {

constexpr std::uint64_t kReceives = 3;

struct LateFlush : Rig {
  // A side whose connection has ended, with posted receives that the device flushes after `looks`
  // polls of the CQ, or never if that is -1.
  Side ended(int looks) {
    const Side side = this->side();
    const Side peer = this->side();
    join(side, peer);
    for (std::uint64_t i = 0; i < kReceives; ++i) REQUIRE_OK(post_recv(side.ep, buffer, i));
    qp(side.ep).flush_delay = looks;
    qp(peer.ep).break_(transport::BreakReason::kTransportLost);
    run();
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    return side;
  }

  void check_next_life(const Side& side) {
    const Side peer = this->side();
    join(side, peer);
    REQUIRE_OK(post_recv(side.ep, buffer, 9));
    REQUIRE_OK(post_send(peer.ep, buffer, 1));
    run();
    const auto received = take_dto(side.recv_evd);
    BOOST_CHECK_EQUAL(received.status, DAT_DTO_SUCCESS);
    BOOST_CHECK_EQUAL(received.user_cookie.as_64, 9U);
  }

  Buffer buffer{ia, pz};
};

BOOST_FIXTURE_TEST_SUITE(late_flush, LateFlush)

BOOST_AUTO_TEST_CASE(waits_for_the_flush) {
  const Side side = ended(8);
  REQUIRE_OK(ia->ep_reset_func(side.ep));
  for (std::uint64_t i = 0; i < kReceives; ++i) {
    const auto flushed = take_dto(side.recv_evd);
    BOOST_CHECK_EQUAL(flushed.status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(flushed.user_cookie.as_64, i);
  }
  BOOST_CHECK(empty(side.recv_evd));
  check_next_life(side);
}

BOOST_AUTO_TEST_CASE(gives_up_on_a_device_that_does_not_flush) {
  const Side side = ended(-1);
  const Traced traced;
  REQUIRE_OK(ia->ep_reset_func(side.ep));
  BOOST_CHECK(traced.has(trace::kNormal, "3 receives and 0 requests were not flushed"));
  BOOST_CHECK(empty(side.recv_evd));
  check_next_life(side);
}

// Suppressed requests have no completion, so they cannot be distinguished from requests that the
// device has yet to flush.
BOOST_AUTO_TEST_CASE(does_not_wait_for_suppressed_requests) {
  const Side side = this->side();
  const Side peer = this->side();
  join(side, peer);
  REQUIRE_OK(post_recv(peer.ep, buffer, 1));
  REQUIRE_OK(post_send(side.ep, buffer, 1, 64, DAT_COMPLETION_SUPPRESS_FLAG));
  qp(side.ep).flush_delay = -1;
  qp(peer.ep).break_(transport::BreakReason::kTransportLost);
  run();
  const Traced traced;
  REQUIRE_OK(ia->ep_reset_func(side.ep));
  BOOST_CHECK(!traced.has(trace::kNormal, "were not flushed"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
