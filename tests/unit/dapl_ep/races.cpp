// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The consumer's calls racing with the service thread. Most useful with the thread sanitizer.
#include "tests/unit/dapl_ep/support.h"

#include <thread>

namespace udapl::test {
namespace {

constexpr int kRounds = 300;

// Waits for the next connection event and returns its number.
int await_connection(const Rig& rig, DAT_EVD_HANDLE evd) {
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  REQUIRE_OK(rig.ia->evd_wait_func(evd, kLate, 1, &event, &more));
  return event.event_number;
}

DAT_CR_HANDLE await_cr(const Rig& rig) {
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  REQUIRE_OK(rig.ia->evd_wait_func(rig.cr_evd, kLate, 1, &event, &more));
  return event.event_data.cr_arrival_event_data.cr_handle;
}

BOOST_FIXTURE_TEST_SUITE(races, Rig)

BOOST_AUTO_TEST_CASE(lives_with_a_service_thread) {
  const ServiceThread service;
  const Side active = side();
  const Side passive = side();
  Buffer from(ia, pz);
  Buffer to(ia, pz);
  psp();
  for (int round = 0; round < kRounds; ++round) {
    REQUIRE_OK(post_recv(passive.ep, to, 1));
    REQUIRE_OK(connect(active.ep));
    REQUIRE_OK(ia->cr_accept_func(await_cr(*this), passive.ep, 0, nullptr));
    BOOST_REQUIRE_EQUAL(await_connection(*this, active.connect_evd),
                        DAT_CONNECTION_EVENT_ESTABLISHED);
    BOOST_REQUIRE_EQUAL(await_connection(*this, passive.connect_evd),
                        DAT_CONNECTION_EVENT_ESTABLISHED);
    BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_CONNECTED);
    REQUIRE_OK(post_send(active.ep, from, 2));
    BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).status, DAT_DTO_SUCCESS);
    BOOST_CHECK_EQUAL(take_dto(active.request_evd).status, DAT_DTO_SUCCESS);
    // Both sides disconnect at the same time.
    std::thread other(
        [&] { static_cast<void>(ia->ep_disconnect_func(passive.ep, DAT_CLOSE_GRACEFUL_FLAG)); });
    REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
    other.join();
    for (const Side& side : {active, passive}) {
      BOOST_REQUIRE_EQUAL(await_connection(*this, side.connect_evd),
                          DAT_CONNECTION_EVENT_DISCONNECTED);
      REQUIRE_OK(ia->ep_reset_func(side.ep));
      BOOST_CHECK(empty(side.connect_evd));
    }
  }
}

BOOST_AUTO_TEST_CASE(rsp_free_against_its_request) {
  const ServiceThread service;
  const Side passive = side();
  int freed = 0;
  for (int round = 0; round < kRounds; ++round) {
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    REQUIRE_OK(ia->rsp_create_func(ia.raw, kService, passive.ep, cr_evd, &rsp));
    const Side active = side();
    REQUIRE_OK(connect(active.ep));
    if (round % 3 == 0) std::this_thread::yield();
    const DAT_RETURN code = ia->rsp_free_func(rsp);
    CHECK_CODE(code, DAT_SUCCESS);  // in both orders
    if (state(passive.ep) == DAT_EP_STATE_UNCONNECTED) {
      ++freed;
      BOOST_REQUIRE_EQUAL(await_connection(*this, active.connect_evd),
                          DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
      BOOST_CHECK(empty(cr_evd));
    } else {  // the request arrived first
      REQUIRE_OK(ia->cr_reject_func(await_cr(*this), 0, nullptr));
      BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_UNCONNECTED);
      BOOST_REQUIRE_EQUAL(await_connection(*this, active.connect_evd),
                          DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
    REQUIRE_OK(ia->ep_free_func(active.ep));
    for (const DAT_EVD_HANDLE evd : {active.recv_evd, active.request_evd, active.connect_evd})
      REQUIRE_OK(ia->evd_free_func(evd));
  }
  BOOST_TEST_MESSAGE("freed first " << freed << " times of " << kRounds);
}

BOOST_AUTO_TEST_CASE(psp_free_against_its_requests) {
  const ServiceThread service;
  const Side active = side();
  for (int round = 0; round < kRounds; ++round) {
    const DAT_PSP_HANDLE place =
        psp(kService, round % 2 == 0 ? DAT_PSP_CONSUMER_FLAG : DAT_PSP_PROVIDER_FLAG);
    REQUIRE_OK(connect(active.ep));
    if (round % 3 == 0) std::this_thread::yield();
    REQUIRE_OK(ia->psp_free_func(place));
    // Either an event or a rejection, never both.
    DAT_EVENT event{};
    const bool arrived = ia->evd_dequeue_func(cr_evd, &event) == DAT_SUCCESS;
    if (arrived)
      REQUIRE_OK(ia->cr_reject_func(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
    BOOST_REQUIRE_EQUAL(
        await_connection(*this, active.connect_evd),
        arrived ? DAT_CONNECTION_EVENT_PEER_REJECTED : DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    REQUIRE_OK(ia->ep_reset_func(active.ep));
  }
}

BOOST_AUTO_TEST_CASE(free_against_transport_reports) {
  const ServiceThread service;
  psp();
  for (int round = 0; round < kRounds; ++round) {
    const Side active = side();
    const Side passive = side();
    REQUIRE_OK(connect(active.ep));
    REQUIRE_OK(ia->cr_accept_func(await_cr(*this), passive.ep, 0, nullptr));
    if (round % 2 == 0) std::this_thread::yield();
    REQUIRE_OK(ia->ep_free_func(active.ep));  // whichever report is in flight to it
    REQUIRE_OK(ia->ep_free_func(passive.ep));
    for (const Side& side : {active, passive}) {
      DAT_EVENT event{};
      while (ia->evd_dequeue_func(side.connect_evd, &event) == DAT_SUCCESS) {
      }
      for (const DAT_EVD_HANDLE evd : {side.recv_evd, side.request_evd, side.connect_evd})
        REQUIRE_OK(ia->evd_free_func(evd));
    }
  }
}

BOOST_AUTO_TEST_CASE(posts_against_the_end_of_the_connection) {
  const ServiceThread service;
  Buffer from(ia, pz);
  Buffer to(ia, pz);
  psp();
  for (int round = 0; round < 50; ++round) {
    const Side active = side();
    const Side passive = side();
    REQUIRE_OK(connect(active.ep));
    REQUIRE_OK(ia->cr_accept_func(await_cr(*this), passive.ep, 0, nullptr));
    BOOST_REQUIRE_EQUAL(await_connection(*this, active.connect_evd),
                        DAT_CONNECTION_EVENT_ESTABLISHED);
    std::atomic<bool> stop{false};
    std::atomic<int> posted{0};
    std::thread poster([&] {
      while (!stop) {
        DAT_RETURN code = post_send(active.ep, from, 1, 1, DAT_COMPLETION_SUPPRESS_FLAG);
        if (code == DAT_SUCCESS) ++posted;
        code = post_recv(active.ep, to, 1);
        if (code == DAT_SUCCESS) ++posted;
      }
    });
    std::thread reaper([&] {
      DAT_EVENT event{};
      while (!stop) {
        static_cast<void>(ia->evd_dequeue_func(active.request_evd, &event));
        static_cast<void>(ia->evd_dequeue_func(active.recv_evd, &event));
      }
    });
    while (posted < 20) std::this_thread::yield();
    REQUIRE_OK(ia->ep_disconnect_func(
        active.ep, round % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
    static_cast<void>(await_connection(*this, active.connect_evd));
    const int before = posted;
    while (posted < before + 20) std::this_thread::yield();  // these posts are flushed
    stop = true;
    poster.join();
    reaper.join();
    REQUIRE_OK(ia->ep_free_func(active.ep));
    REQUIRE_OK(ia->ep_free_func(passive.ep));
    for (const Side& side : {active, passive})
      for (const DAT_EVD_HANDLE evd : {side.recv_evd, side.request_evd, side.connect_evd})
        REQUIRE_OK(ia->evd_free_func(evd));
  }
}

BOOST_AUTO_TEST_CASE(handoff_against_psp_free) {
  const ServiceThread service;
  psp();
  const Side active = side();
  for (int round = 0; round < kRounds; ++round) {
    const DAT_PSP_HANDLE target = psp(kService + 1);
    REQUIRE_OK(connect(active.ep));
    const DAT_CR_HANDLE cr = await_cr(*this);
    std::thread freeing([&] { static_cast<void>(ia->psp_free_func(target)); });
    const DAT_RETURN code = ia->cr_handoff_func(cr, kService + 1);
    freeing.join();
    REQUIRE_OK(ia->cr_reject_func(code == DAT_SUCCESS ? await_cr(*this) : cr, 0, nullptr));
    BOOST_REQUIRE_EQUAL(await_connection(*this, active.connect_evd),
                        DAT_CONNECTION_EVENT_PEER_REJECTED);
    REQUIRE_OK(ia->ep_reset_func(active.ep));
  }
}

BOOST_AUTO_TEST_CASE(close_against_everything) {
  for (int round = 0; round < 30; ++round) {
    const ServiceThread service;
    Rig other;
    other.psp(kService + 10);
    other.psp(kService + 11, DAT_PSP_PROVIDER_FLAG);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    REQUIRE_OK(other.ia->rsp_create_func(other.ia.raw, kService + 12, other.side().ep, other.cr_evd,
                                         &rsp));
    for (DAT_CONN_QUAL i = 10; i < 13; ++i)
      REQUIRE_OK(other.connect(other.side().ep, kService + i));
    if (round % 2 == 0) std::this_thread::yield();
    CHECK_CODE(other.ia.close(), DAT_SUCCESS);
  }
}

// Regression: the report used the QP, which the closing thread had already taken from the EP.
BOOST_AUTO_TEST_CASE(close_against_a_report_that_has_begun) {
  Rig other;
  const Side active = other.side();
  other.psp(kService + 10);
  REQUIRE_OK(other.connect(active.ep, kService + 10));
  run();
  fake::Qp& qp = Rig::qp(active.ep);
  std::atomic<bool> begun{false};
  fake::Scheduler::instance().defer(&qp, [&begun, sink = qp.init().sink, ep = active.ep] {
    begun = true;
    while (fake::Qp::of(ep) != nullptr) std::this_thread::yield();  // ~Qp waits for this call
    sink->on_established({});
  });
  const ServiceThread service;
  while (!begun) std::this_thread::yield();
  CHECK_CODE(other.ia.close(), DAT_SUCCESS);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
