// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The end of a connection: abrupt and graceful, with exactly one event, whichever side ended it.
#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(disconnecting, Rig)

// Programs wait for the end of a connection like this. The transport may have to wake the thread
// that reports it.
BOOST_AUTO_TEST_CASE(state_that_is_looked_at_is_polled) {
  std::atomic<int>& polls = fake::settings().idle_polls;
  const Side side = this->side();
  const int before = polls;
  DAT_EP_STATE state{};
  REQUIRE_OK(ia->ep_get_status_func(side.ep, &state, nullptr, nullptr));
  BOOST_CHECK_EQUAL(polls.load(), before + 1);
  DAT_EP_PARAM param{};
  REQUIRE_OK(ia->ep_query_func(side.ep, DAT_EP_FIELD_EP_STATE, &param));
  BOOST_CHECK_EQUAL(polls.load(), before + 2);
  DAT_COUNT held = 0;
  REQUIRE_OK(ia->ep_recv_query_func(side.ep, &held, nullptr));
  BOOST_CHECK_EQUAL(polls.load(), before + 3);
}

BOOST_AUTO_TEST_CASE(abrupt_disconnect_flushes_all) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(post_recv(active.ep, buffer, i));
  qp(active.ep).hold(true);
  for (std::uint64_t i = 10; i < 12; ++i)
    REQUIRE_OK(post_send(active.ep, buffer, i, 8, DAT_COMPLETION_SUPPRESS_FLAG));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_DISCONNECTED);
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto flushed = take_dto(active.recv_evd);
    BOOST_CHECK_EQUAL(flushed.status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(flushed.user_cookie.as_64, i);
    BOOST_CHECK_EQUAL(flushed.operation, DAT_DTO_RECEIVE);
  }
  for (std::uint64_t i = 10; i < 12; ++i) {  // only successes are suppressed
    const auto flushed = take_dto(active.request_evd);
    BOOST_CHECK_EQUAL(flushed.status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(flushed.user_cookie.as_64, i);
  }
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  run();
  BOOST_CHECK(empty(active.connect_evd));
  BOOST_CHECK_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK(empty(passive.connect_evd));
}

BOOST_AUTO_TEST_CASE(graceful_disconnect_drains) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  Buffer from(ia, pz);
  Buffer to(ia, pz);
  REQUIRE_OK(post_recv(passive.ep, to, 1));
  REQUIRE_OK(post_recv(active.ep, to, 2));
  qp(active.ep).hold(true);
  REQUIRE_OK(post_send(active.ep, from, 3));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_DISCONNECT_PENDING);
  CHECK_CODE(post_send(active.ep, from, 4), invalid_state(DAT_INVALID_STATE_EP_DISCPENDING));
  REQUIRE_OK(post_recv(active.ep, to, 5));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  run();
  BOOST_CHECK(empty(active.connect_evd));
  qp(active.ep).hold(false);
  run();
  BOOST_CHECK_EQUAL(take_dto(active.request_evd).status, DAT_DTO_SUCCESS);
  BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).status, DAT_DTO_SUCCESS);
  for (const Side& side : {active, passive}) {
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    BOOST_CHECK(empty(side.connect_evd));
  }
  for (const std::uint64_t cookie : {2U, 5U})
    BOOST_CHECK_EQUAL(take_dto(active.recv_evd).user_cookie.as_64, cookie);
}

// For transports whose completed requests have reached the peer: a graceful disconnect ends at once
// if no request is outstanding. A request whose completion has not been dequeued is outstanding.
BOOST_AUTO_TEST_CASE(graceful_disconnect_of_an_idle_ep_is_immediate) {
  const Rig rig(true, [](transport::Attributes& a) { a.completed_is_delivered = true; });
  Buffer from(rig.ia, rig.pz);
  Buffer to(rig.ia, rig.pz);
  for (const bool reaped : {true, false}) {
    const Side active = rig.side();
    const Side passive = rig.side();
    rig.join(active, passive);
    REQUIRE_OK(rig.post_recv(passive.ep, to, 1));
    REQUIRE_OK(rig.post_send(active.ep, from, 2));
    run();
    if (reaped) BOOST_CHECK_EQUAL(rig.take_dto(active.request_evd).status, DAT_DTO_SUCCESS);
    REQUIRE_OK(rig.ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
    const int at_once = rig.take_connection(active.connect_evd);
    BOOST_CHECK_EQUAL(at_once, reaped ? DAT_CONNECTION_EVENT_DISCONNECTED : 0);
    run();
    if (!reaped)
      BOOST_CHECK_EQUAL(rig.take_connection(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    BOOST_CHECK_EQUAL(rig.take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    for (const Side& side : {active, passive}) {
      BOOST_CHECK_EQUAL(rig.state(side.ep), DAT_EP_STATE_DISCONNECTED);
      BOOST_CHECK(rig.empty(side.connect_evd));
    }
    BOOST_CHECK_EQUAL(rig.take_dto(passive.recv_evd).status, DAT_DTO_SUCCESS);
    if (!reaped) BOOST_CHECK_EQUAL(rig.take_dto(active.request_evd).status, DAT_DTO_SUCCESS);
  }
}

BOOST_AUTO_TEST_CASE(graceful_disconnect_can_break_or_become_abrupt) {
  {
    Side side = reach(DAT_EP_STATE_DISCONNECT_PENDING);
    qp(side.ep).break_(transport::BreakReason::kTransportLost);
    run();
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_BROKEN);
    BOOST_CHECK(empty(side.connect_evd));
  }
  Side side = reach(DAT_EP_STATE_DISCONNECT_PENDING);
  REQUIRE_OK(ia->ep_disconnect_func(side.ep, DAT_CLOSE_ABRUPT_FLAG));
  run();
  BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK(empty(side.connect_evd));
}

BOOST_AUTO_TEST_CASE(exactly_one_terminal_event_in_any_order) {
  for (int order = 0; order < 4; ++order) {
    const Side active = side();
    const Side passive = side();
    join(active, passive);
    fake::Qp& transport = qp(active.ep);
    int expected = DAT_CONNECTION_EVENT_DISCONNECTED;
    switch (order) {
      case 0:  // both sides at once
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
        REQUIRE_OK(ia->ep_disconnect_func(passive.ep, DAT_CLOSE_ABRUPT_FLAG));
        break;
      case 1:  // a report of a break is in flight when the consumer disconnects
        transport.break_(transport::BreakReason::kProtocol);
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
        break;
      case 2:  // the break has been reported before the disconnect
        transport.break_(transport::BreakReason::kProtocol);
        run();
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
        expected = DAT_CONNECTION_EVENT_BROKEN;
        break;
      default:  // the peer's end has been reported before the disconnect
        REQUIRE_OK(ia->ep_disconnect_func(passive.ep, DAT_CLOSE_GRACEFUL_FLAG));
        run();
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
    }
    run();
    BOOST_CHECK_EQUAL(take_connection(active.connect_evd), expected);
    BOOST_CHECK(empty(active.connect_evd));
    BOOST_CHECK_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    BOOST_CHECK(empty(passive.connect_evd));
  }
}

BOOST_AUTO_TEST_CASE(disconnect_before_established_is_delivered) {
  const Side active = side();
  REQUIRE_OK(connect(active.ep, 1));
  qp(active.ep).establish();
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK(empty(active.connect_evd));
  BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_DISCONNECTED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
