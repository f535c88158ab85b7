// SPDX-License-Identifier: MIT OR GPL-2.0-only
// One EVD for the connection and the completions of an EP: the order of its events.
#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {
namespace {

struct Merged : Rig {
  // Creates an EP with `evd` as its only EVD.
  [[nodiscard]] DAT_EP_HANDLE ep_of(DAT_EVD_HANDLE evd) const {
    const DAT_EP_ATTR attr = attributes();
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    REQUIRE_OK(ia->ep_create_func(ia.raw, pz, evd, evd, evd, &attr, &ep));
    return ep;
  }

  DAT_EVD_HANDLE merged = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 64);
};

BOOST_FIXTURE_TEST_SUITE(merged_evd, Merged)

// The peer's first message may overtake the last message of the handshake.
BOOST_AUTO_TEST_CASE(established_precedes_earlier_completions) {
  const DAT_EP_HANDLE ep = ep_of(merged);
  const DAT_EP_HANDLE neighbour = ep_of(merged);
  const Side active = side();
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(active.ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), ep, 0, nullptr));
  Completions completions(ia, merged);
  completions.push_of(static_cast<dapl::Ep*>(ep), 1);
  completions.push_of(static_cast<dapl::Ep*>(neighbour), 2);
  completions.push_of(static_cast<dapl::Ep*>(ep), 3);
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 2U);
  BOOST_CHECK(empty(merged));
  DAT_EVENT event{};
  DAT_COUNT more = -1;
  BOOST_CHECK_NE(ia->evd_wait_func(merged, 1000, 1, &event, &more), DAT_SUCCESS);
  run();
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 1U);
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 3U);
  BOOST_CHECK(empty(merged));
  REQUIRE_OK(ia->psp_free_func(listening));
}

// Requests may be posted, and complete, before ESTABLISHED is reported. Completions in another EVD
// are not held.
BOOST_AUTO_TEST_CASE(established_precedes_completed_requests) {
  const DAT_EP_ATTR attr = attributes();
  DAT_EVD_HANDLE recv_evd = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 64);
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, recv_evd, merged, merged, &attr, &ep));
  const Side active = side();
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(active.ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), ep, 0, nullptr));
  Completions(ia, merged).push_of(static_cast<dapl::Ep*>(ep), 1);
  Completions(ia, recv_evd).push_of(static_cast<dapl::Ep*>(ep), 2);
  BOOST_CHECK_EQUAL(take_dto(recv_evd).user_cookie.as_64, 2U);
  BOOST_CHECK(empty(merged));
  run();
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 1U);
  REQUIRE_OK(ia->psp_free_func(listening));
}

// When the connection ends, a completion held for ESTABLISHED is delivered before the end.
BOOST_AUTO_TEST_CASE(held_completions_precede_the_end) {
  const DAT_EP_HANDLE ep = ep_of(merged);
  const Side active = side();
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(active.ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), ep, 0, nullptr));
  Completions completions(ia, merged);
  completions.push_of(static_cast<dapl::Ep*>(ep), 1);
  BOOST_CHECK(empty(merged));
  REQUIRE_OK(ia->ep_disconnect_func(ep, DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 1U);
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_DISCONNECTED);
  REQUIRE_OK(ia->psp_free_func(listening));
  run();
}

// When an EP is freed, its held completions, and only these, are dropped; their SRQ buffers become
// available again.
BOOST_AUTO_TEST_CASE(held_completions_are_dropped_with_their_ep) {
  DAT_EP_HANDLE eps[] = {ep_of(merged), ep_of(merged)};
  const DAT_PSP_HANDLE listening = psp();
  for (const DAT_EP_HANDLE ep : eps) {
    REQUIRE_OK(connect(side().ep));
    run();
    REQUIRE_OK(ia->cr_accept_func(take_cr(), ep, 0, nullptr));
    fake::Scheduler::instance().drop(&qp(ep));  // its ESTABLISHED is never reported
  }
  Completions completions(ia, merged);
  for (std::uint64_t i = 0; i < 4; ++i) completions.push_of(static_cast<dapl::Ep*>(eps[i % 2]), i);
  BOOST_CHECK(empty(merged));
  BOOST_CHECK_EQUAL(completions.outstanding(), 4);
  REQUIRE_OK(ia->ep_free_func(eps[0]));
  BOOST_CHECK_EQUAL(completions.outstanding(), 2);
  BOOST_CHECK(empty(merged));
  REQUIRE_OK(ia->ep_disconnect_func(eps[1], DAT_CLOSE_ABRUPT_FLAG));
  for (const std::uint64_t cookie : {1U, 3U})
    BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, cookie);
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK(empty(merged));
  REQUIRE_OK(ia->psp_free_func(listening));
  run();
}

BOOST_AUTO_TEST_CASE(successes_precede_the_end_on_a_merged_evd) {
  const DAT_EP_HANDLE ep = ep_of(merged);
  const Side passive = side();
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), passive.ep, 0, nullptr));
  run();
  REQUIRE_OK(ia->psp_free_func(listening));
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(post_recv(passive.ep, buffer, i));
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(post_send(ep, buffer, i));
  REQUIRE_OK(post_recv(ep, buffer, 9));
  REQUIRE_OK(ia->ep_disconnect_func(ep, DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_ESTABLISHED);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto sent = take_dto(merged);
    BOOST_CHECK_EQUAL(sent.status, DAT_DTO_SUCCESS);
    BOOST_CHECK_EQUAL(sent.user_cookie.as_64, i);
  }
  int ends = 0;
  int flushes = 0;
  DAT_EVENT event{};
  while (ia->evd_dequeue_func(merged, &event) == DAT_SUCCESS) {
    ends += event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED;
    flushes += event.event_number == DAT_DTO_COMPLETION_EVENT;
  }
  BOOST_CHECK_EQUAL(ends, 1);
  BOOST_CHECK_EQUAL(flushes, 1);
  run();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
