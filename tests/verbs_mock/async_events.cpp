// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A QP's asynchronous events are delivered independently of completions and rdma_cm events: in any
// order, at any time, more than once.
#include <boost/test/unit_test.hpp>

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "every_fault.h"

namespace {

using faults::End;
using faults::Pair;
using faults::Run;

constexpr DAT_TIMEOUT kPatience = 4'000'000;  // us

void check_clean(Run& run) {
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
  for (const std::string& complaint : run.complaints()) BOOST_ERROR(complaint);
  char left[256];
  BOOST_CHECK_MESSAGE(verbs_mock_live(left, sizeof left) == 0, left);
}

void post_receive(const Pair& pair, const End& end) {
  DAT_LMR_TRIPLET to = pair.local(1024, 64);
  DAT_DTO_COOKIE cookie{};
  cookie.as_64 = 7;
  BOOST_REQUIRE_EQUAL(dat_ep_post_recv(end.ep, 1, &to, cookie, DAT_COMPLETION_DEFAULT_FLAG),
                      DAT_SUCCESS);
}

// Checks that exactly one event ends the connection.
void check_one_end(const End& end) {
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  BOOST_REQUIRE_EQUAL(dat_evd_wait(end.connect_evd, kPatience, 1, &event, &more), DAT_SUCCESS);
  BOOST_CHECK(event.event_number == DAT_CONNECTION_EVENT_BROKEN ||
              event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK_EQUAL(event.event_data.connect_event_data.ep_handle, end.ep);
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_evd_dequeue(end.connect_evd, &event)), DAT_QUEUE_EMPTY);
  DAT_EP_STATE state = DAT_EP_STATE_CONNECTED;
  BOOST_CHECK_EQUAL(dat_ep_get_status(end.ep, &state, nullptr, nullptr), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(state, DAT_EP_STATE_DISCONNECTED);
}

void check_flushed(const End& end) {
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  BOOST_REQUIRE_EQUAL(dat_evd_wait(end.recv_evd, kPatience, 1, &event, &more), DAT_SUCCESS);
  const auto& done = event.event_data.dto_completion_event_data;
  BOOST_CHECK_EQUAL(done.status, DAT_DTO_ERR_FLUSHED);
  BOOST_CHECK_EQUAL(done.user_cookie.as_64, 7U);
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_evd_dequeue(end.recv_evd, &event)), DAT_QUEUE_EMPTY);
}

void drop_events(DAT_EVD_HANDLE evd) {
  DAT_EVENT event{};
  while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
  }
}

// Connects EPs whose connection has ended. All asynchronous events of the old connection have
// arrived by the end of the reset.
void check_usable(Pair& pair) {
  for (const End* const end : {&pair.active, &pair.passive})
    BOOST_REQUIRE_EQUAL(dat_ep_reset(end->ep), DAT_SUCCESS);
  drop_events(pair.run.async_evd);
  BOOST_CHECK(pair.connect() && faults::send(pair) && pair.disconnect(DAT_CLOSE_ABRUPT_FLAG));
}

constexpr std::array kHarmless = {IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
                                  IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED};
constexpr std::array kErrors = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR};

BOOST_AUTO_TEST_SUITE(async_events)

BOOST_AUTO_TEST_CASE(harmless_ones_change_nothing_in_any_state) {
  for (const ibv_event_type type : kHarmless) {
    BOOST_TEST_INFO(ibv_event_type_str(type));
    Run run;
    Pair pair(run);
    BOOST_REQUIRE(pair.create());
    verbs_mock_raise_on_qps(type);
    BOOST_REQUIRE(pair.connect());
    for (int i = 0; i < 2; ++i) verbs_mock_raise_on_qps(type);
    BOOST_CHECK(faults::send(pair));
    BOOST_CHECK(pair.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    verbs_mock_raise_on_qps(type);
    check_usable(pair);
    check_clean(run);
  }
}

// Each side gets one event, even if an error arrives twice or after the end.
BOOST_AUTO_TEST_CASE(errors_end_a_connection_once) {
  for (const ibv_event_type type : kErrors) {
    BOOST_TEST_INFO(ibv_event_type_str(type));
    Run run;
    Pair pair(run);
    BOOST_REQUIRE(pair.create() && pair.connect());
    post_receive(pair, pair.passive);
    for (int i = 0; i < 2; ++i) verbs_mock_raise_on_qps(type);
    check_one_end(pair.active);
    check_one_end(pair.passive);
    check_flushed(pair.passive);
    verbs_mock_raise_on_qps(type);
    check_usable(pair);
    check_clean(run);
  }
}

// Without a connection none ends, but the consumer is notified that the EP is broken.
BOOST_AUTO_TEST_CASE(errors_without_a_connection_are_reported) {
  for (const ibv_event_type type : kErrors) {
    BOOST_TEST_INFO(ibv_event_type_str(type));
    Run run;
    Pair pair(run);
    BOOST_REQUIRE(pair.create());
    verbs_mock_raise_on_qps(type);
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    for (int end = 0; end < 2; ++end) {
      BOOST_REQUIRE_EQUAL(dat_evd_wait(run.async_evd, kPatience, 1, &event, &more), DAT_SUCCESS);
      BOOST_CHECK_EQUAL(event.event_number, DAT_ASYNC_ERROR_EP_BROKEN);
    }
    for (const End* const end : {&pair.active, &pair.passive})
      BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_evd_dequeue(end->connect_evd, &event)), DAT_QUEUE_EMPTY);
    check_clean(run);
  }
}

// An asynchronous error, the connection manager's loss of the peer and the consumer's disconnect,
// in every order, with and without pauses: each side gets one end, each receive is flushed once.
BOOST_AUTO_TEST_CASE(ends_in_every_order) {
  enum What { kError, kPeerLost, kDisconnect };
  for (const bool paused : {false, true}) {
    std::array order = {kError, kPeerLost, kDisconnect};
    do {
      BOOST_TEST_INFO("order " << order[0] << order[1] << order[2] << ", paused " << paused);
      Run run;
      Pair pair(run);
      BOOST_REQUIRE(pair.create() && pair.connect());
      post_receive(pair, pair.passive);
      post_receive(pair, pair.active);
      for (const What what : order) {
        if (what == kError) verbs_mock_raise_on_qps(IBV_EVENT_QP_FATAL);
        if (what == kPeerLost) verbs_mock_lose_peers();
        if (what == kDisconnect) (void)dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG);
        if (paused) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      for (const End* const end : {&pair.active, &pair.passive}) {
        check_one_end(*end);
        check_flushed(*end);
      }
      check_usable(pair);
      check_clean(run);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// IAs that had the device open have lost it. It can be opened again before these are closed, and
// used as soon as they have freed the qualifier on which they listen.
BOOST_AUTO_TEST_CASE(device_goes_and_returns) {
  for (const bool closed_before : {false, true}) {
    Run former;
    Pair lost(former);
    BOOST_REQUIRE(lost.create() && lost.connect());
    post_receive(lost, lost.passive);
    verbs_mock_remove_device();
    verbs_mock_fail_device();
    check_one_end(lost.active);
    check_one_end(lost.passive);
    check_flushed(lost.passive);
    drop_events(former.async_evd);
    if (closed_before) check_clean(former);
    {
      Run run;
      Pair pair(run);
      BOOST_REQUIRE(closed_before ? pair.create() && pair.connect() : run.open());
      if (closed_before) BOOST_CHECK(faults::send(pair) && pair.disconnect(DAT_CLOSE_ABRUPT_FLAG));
      run.finish();
      BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
    }
    if (!closed_before) check_clean(former);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
