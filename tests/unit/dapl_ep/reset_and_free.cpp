// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What happens to an EP's posted work and events when it is reset or freed.
#include "tests/unit/dapl_ep/support.h"

#include <utility>

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(reset_and_free, Rig)

BOOST_AUTO_TEST_CASE(marker_and_reset_lose_nothing) {
  const Side side = this->side();
  const Side peer = this->side();
  join(side, peer);
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE_OK(post_recv(side.ep, buffer, i));
  qp(peer.ep).break_(transport::BreakReason::kTransportLost);
  run();
  BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  REQUIRE_OK(post_recv(side.ep, buffer, 100));
  REQUIRE_OK(post_send(side.ep, buffer, 200));
  std::uint64_t expected = 0;
  for (;;) {
    const auto flushed = take_dto(side.recv_evd);
    BOOST_CHECK_EQUAL(flushed.status, DAT_DTO_ERR_FLUSHED);
    if (flushed.user_cookie.as_64 == 100) break;
    BOOST_CHECK_EQUAL(flushed.user_cookie.as_64, expected++);
  }
  BOOST_CHECK_EQUAL(expected, 5U);
  BOOST_CHECK_EQUAL(take_dto(side.request_evd).user_cookie.as_64, 200U);
  REQUIRE_OK(ia->ep_reset_func(side.ep));
  BOOST_CHECK(empty(side.recv_evd));
  BOOST_CHECK(empty(side.request_evd));
}

BOOST_AUTO_TEST_CASE(leftover_completions_spare_the_next_life) {
  const Side active = side();
  const Side passive = side();
  Buffer from(ia, pz);
  Buffer to(ia, pz);
  for (std::uint64_t life = 0; life < 200; ++life) {
    join(active, passive);
    // More than is dequeued: completions left at the reset must not disturb the next life.
    for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(post_recv(passive.ep, to, life * 100 + i));
    for (std::uint64_t i = 0; i < 5; ++i) REQUIRE_OK(post_send(active.ep, from, life * 100 + i));
    BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).user_cookie.as_64, life * 100);
    BOOST_CHECK_EQUAL(take_dto(active.request_evd).user_cookie.as_64, life * 100);
    REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
    run();
    for (const Side& side : {active, passive}) {
      BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
      REQUIRE_OK(ia->ep_reset_func(side.ep));
      DAT_BOOLEAN recv_idle = DAT_FALSE;
      DAT_BOOLEAN request_idle = DAT_FALSE;
      REQUIRE_OK(ia->ep_get_status_func(side.ep, nullptr, &recv_idle, &request_idle));
      BOOST_CHECK_EQUAL(recv_idle, DAT_TRUE);
      BOOST_CHECK_EQUAL(request_idle, DAT_TRUE);
      DAT_EVENT event{};
      while (ia->evd_dequeue_func(side.recv_evd, &event) == DAT_SUCCESS) {
      }
      while (ia->evd_dequeue_func(side.request_evd, &event) == DAT_SUCCESS) {
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_reset_that_fails) {
  const Side side = reach(DAT_EP_STATE_DISCONNECTED);
  Buffer buffer(ia, pz);
  qp(side.ep).refuse_reset = true;
  CHECK_ERROR(ia->ep_reset_func(side.ep), DAT_INSUFFICIENT_RESOURCES);
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_DISCONNECTED);
  REQUIRE_OK(post_recv(side.ep, buffer, 4));
  BOOST_CHECK_EQUAL(take_dto(side.recv_evd).status, DAT_DTO_ERR_FLUSHED);
  qp(side.ep).refuse_reset = false;
  REQUIRE_OK(ia->ep_reset_func(side.ep));
}

BOOST_AUTO_TEST_CASE(reset_unconnected_keeps_receives) {
  const Side side = this->side();
  Buffer buffer(ia, pz);
  REQUIRE_OK(post_recv(side.ep, buffer, 31));
  REQUIRE_OK(ia->ep_reset_func(side.ep));
  const Side peer = this->side();
  join(peer, side);
  REQUIRE_OK(post_send(peer.ep, buffer, 1));
  BOOST_CHECK_EQUAL(take_dto(side.recv_evd).user_cookie.as_64, 31U);
}

BOOST_AUTO_TEST_CASE(free_with_work_and_completions) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 8; ++i) {
    REQUIRE_OK(post_recv(passive.ep, buffer, i));
    REQUIRE_OK(post_send(active.ep, buffer, i));
  }
  static_cast<void>(take_dto(passive.recv_evd));  // moves the others into the stash
  REQUIRE_OK(ia->ep_free_func(passive.ep));
  REQUIRE_OK(ia->ep_free_func(active.ep));
  run();
  DAT_EVENT event{};  // the remaining events are gone or name a freed EP; neither may crash
  while (ia->evd_dequeue_func(passive.recv_evd, &event) == DAT_SUCCESS)
    BOOST_CHECK(dapl::handle_cast<dapl::Ep>(event.event_data.dto_completion_event_data.ep_handle) ==
                nullptr);
  while (ia->evd_dequeue_func(active.request_evd, &event) == DAT_SUCCESS) {
  }
  for (const Side& side : {active, passive}) {
    BOOST_CHECK(empty(side.connect_evd));  // no local event
    for (const DAT_EVD_HANDLE evd : {side.recv_evd, side.request_evd, side.connect_evd})
      REQUIRE_OK(ia->evd_free_func(evd));
  }
}

BOOST_AUTO_TEST_CASE(freeing_a_connected_ep_notifies_the_peer) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  REQUIRE_OK(ia->ep_free_func(active.ep));
  run();
  const int number = take_connection(passive.connect_evd);
  BOOST_CHECK(number == DAT_CONNECTION_EVENT_DISCONNECTED || number == DAT_CONNECTION_EVENT_BROKEN);
}

// A proxy agent that frees the EP whose event called it.
struct FreeingAgent {
  const OpenIa* ia;
  DAT_EP_HANDLE ep;
  DAT_RETURN code = DAT_INTERNAL_ERROR;
  [[nodiscard]] DAT_OS_WAIT_PROXY_AGENT agent() {
    return {this, [](DAT_PVOID self, DAT_EVD_HANDLE) {
              auto* const freeing = static_cast<FreeingAgent*>(self);
              if (freeing->ep == DAT_HANDLE_NULL) return;
              freeing->code = (*freeing->ia)->ep_free_func(std::exchange(freeing->ep, nullptr));
            }};
  }
};

BOOST_AUTO_TEST_CASE(freed_from_inside_its_own_event) {
  for (const bool by_disconnect : {true, false}) {
    const Side side = this->side();
    const Side peer = this->side();
    FreeingAgent agent{&ia, DAT_HANDLE_NULL};
    join(side, peer);
    REQUIRE_OK(ia->evd_modify_cno_func(side.connect_evd, ia.cno(agent.agent())));
    agent.ep = side.ep;
    REQUIRE_OK(ia->ep_disconnect_func(by_disconnect ? side.ep : peer.ep, DAT_CLOSE_ABRUPT_FLAG));
    if (!by_disconnect) run();
    finish_agents(ia);
    CHECK_CODE(agent.code, DAT_SUCCESS);
    BOOST_CHECK(dapl::handle_cast<dapl::Ep>(side.ep) == nullptr);
    run();
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
