// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Events that start at the device: a port fails, the device fails or is removed, memory is paged.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <string>
#include <thread>

#include "every_fault.h"

namespace {

using faults::Pair;
using faults::Run;

void check_clean(Run& run) {
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
  for (const std::string& complaint : run.complaints()) BOOST_ERROR(complaint);
  char left[256];
  BOOST_CHECK_MESSAGE(verbs_mock_live(left, sizeof left) == 0, left);
}

bool catastrophic(Run& run) {
  DAT_EVENT event{};
  return run.expect(run.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, &event);
}

// Whether the asynchronous EVD is empty.
bool silent(Run& run) {
  DAT_EVENT event{};
  if (DAT_GET_TYPE(dat_evd_dequeue(run.async_evd, &event)) == DAT_QUEUE_EMPTY) return true;
  BOOST_TEST_MESSAGE("event " << event.event_number << ", reason "
                              << event.event_data.asynch_error_event_data.reason);
  return false;
}

BOOST_AUTO_TEST_SUITE(events)

// The connection stays: whether it continues to work is up to the fabric.
BOOST_AUTO_TEST_CASE(failed_port_leaves_the_connection) {
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  verbs_mock_fail_port(1);
  BOOST_CHECK(catastrophic(run));
  BOOST_CHECK(faults::send(pair));
  check_clean(run);
}

BOOST_AUTO_TEST_CASE(another_port_fails) {
  verbs_mock_set_fabric(VERBS_MOCK_INFINIBAND);
  {
    Run run("device-2");
    Pair pair(run);
    BOOST_REQUIRE(pair.create());
    verbs_mock_fail_port(1);
    verbs_mock_fail_port(2);
    BOOST_CHECK(catastrophic(run));  // of the second port; that of the first is not reported
    BOOST_CHECK(pair.connect() && faults::send(pair));
    BOOST_CHECK(silent(run));
    check_clean(run);
  }
  verbs_mock_set_fabric(VERBS_MOCK_ROCE);
}

BOOST_AUTO_TEST_CASE(failed_device_is_reported) {
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  verbs_mock_fail_device();
  BOOST_CHECK(catastrophic(run));
  check_clean(run);
}

// Connections break, the IA is notified once, and everything can be freed, in both thread modes.
BOOST_AUTO_TEST_CASE(device_is_removed) {
  for (const bool threadsafe : {false, true}) {
    Run run("mock", threadsafe);
    Pair pair(run);
    BOOST_REQUIRE(pair.create() && pair.connect());
    verbs_mock_remove_device();
    verbs_mock_fail_device();
    DAT_EVENT event{};
    for (const DAT_EVD_HANDLE evd : {pair.active.connect_evd, pair.passive.connect_evd}) {
      DAT_COUNT more = 0;
      BOOST_REQUIRE_EQUAL(dat_evd_wait(evd, 4'000'000, 1, &event, &more), DAT_SUCCESS);
      BOOST_CHECK_EQUAL(event.event_number, DAT_CONNECTION_EVENT_BROKEN);
    }
    BOOST_CHECK(catastrophic(run));
    BOOST_CHECK(silent(run));
    check_clean(run);
  }
}

// While a request waits at the listener, and its connection is being set up.
BOOST_AUTO_TEST_CASE(device_is_removed_while_connecting) {
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.request());
  verbs_mock_remove_device();
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  BOOST_REQUIRE_EQUAL(dat_evd_wait(pair.active.connect_evd, 4'000'000, 1, &event, &more),
                      DAT_SUCCESS);
  BOOST_CHECK_EQUAL(event.event_number, DAT_CONNECTION_EVENT_UNREACHABLE);
  BOOST_CHECK(catastrophic(run));
  (void)dat_cr_reject(pair.cr, 0, nullptr);
  check_clean(run);
}

// Memory beyond the limit of locked memory is paged if the device supports it, otherwise refused.
BOOST_AUTO_TEST_CASE(on_demand_paging) {
  verbs_mock_limit_memory(1024, true);
  {
    Run run;
    Pair pair(run);
    BOOST_REQUIRE(pair.create());
    BOOST_CHECK_EQUAL(verbs_mock_paged(), 1U);
    BOOST_CHECK(pair.connect() && faults::send(pair) && write_to(pair, pair.remote(2048, 16)));
    check_clean(run);
    BOOST_CHECK_EQUAL(verbs_mock_paged(), 0U);
  }
  verbs_mock_limit_memory(1024, false);
  {
    Run run;
    BOOST_REQUIRE(run.open());
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    BOOST_REQUIRE_EQUAL(dat_pz_create(run.ia, &pz), DAT_SUCCESS);
    run.on_finish("dat_pz_free", [pz] { return dat_pz_free(pz); });
    char memory[4096];
    DAT_REGION_DESCRIPTION region{};
    region.for_va = memory;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    BOOST_CHECK_EQUAL(
        DAT_GET_TYPE(dat_lmr_create(run.ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, pz,
                                    DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &context, nullptr,
                                    nullptr, nullptr)),
        DAT_INSUFFICIENT_RESOURCES);
    check_clean(run);
  }
  verbs_mock_limit_memory(0, false);
}

// Makes the device soft-iWARP for the duration of a test.
struct Siw {
  Siw() { verbs_mock_set_siw(true); }
  ~Siw() { verbs_mock_set_siw(false); }
  Siw(const Siw&) = delete;
  Siw& operator=(const Siw&) = delete;
};

// A regression: an application that asked to be woken by solicited messages only was woken neither
// by these nor by the flush of its receives.
BOOST_AUTO_TEST_CASE(siw_wakes_for_solicited_messages_and_failures) {
  const Siw siw;
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create());
  DAT_EP_PARAM param{};
  param.ep_attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  BOOST_REQUIRE_EQUAL(
      dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param),
      DAT_SUCCESS);
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  BOOST_REQUIRE_EQUAL(dat_cno_create(run.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno), DAT_SUCCESS);
  run.on_finish("dat_cno_free", [cno] { return dat_cno_free(cno); });
  BOOST_REQUIRE_EQUAL(dat_evd_modify_cno(pair.passive.recv_evd, cno), DAT_SUCCESS);
  run.on_finish("dat_evd_modify_cno",
                [evd = pair.passive.recv_evd] { return dat_evd_modify_cno(evd, DAT_HANDLE_NULL); });
  BOOST_REQUIRE(pair.connect());
  DAT_LMR_TRIPLET to = pair.local(1024, 64);
  DAT_LMR_TRIPLET from = pair.local(0, 32);
  DAT_DTO_COOKIE cookie{};
  for (int i = 0; i < 2; ++i)
    BOOST_REQUIRE_EQUAL(
        dat_ep_post_recv(pair.passive.ep, 1, &to, cookie, DAT_COMPLETION_DEFAULT_FLAG),
        DAT_SUCCESS);

  const auto woken = [&] {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    BOOST_CHECK_EQUAL(dat_cno_wait(cno, 4'000'000, &evd), DAT_SUCCESS);
    return evd == pair.passive.recv_evd;
  };
  BOOST_REQUIRE_EQUAL(
      dat_ep_post_send(pair.active.ep, 1, &from, cookie, DAT_COMPLETION_SOLICITED_WAIT_FLAG),
      DAT_SUCCESS);
  BOOST_CHECK(woken());
  DAT_EVENT event{};
  BOOST_CHECK_EQUAL(dat_evd_dequeue(pair.passive.recv_evd, &event), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_evd_dequeue(pair.passive.recv_evd, &event)), DAT_QUEUE_EMPTY);
  BOOST_REQUIRE_EQUAL(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
  BOOST_CHECK(woken());
  BOOST_CHECK_EQUAL(dat_evd_dequeue(pair.passive.recv_evd, &event), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
  check_clean(run);
}

// libsiw refuses a receive without segments, which is what is left of one whose segments are empty.
BOOST_AUTO_TEST_CASE(siw_takes_receives_without_data) {
  const Siw siw;
  for (const bool shared : {false, true}) {
    for (DAT_COUNT segments = 0; segments <= (shared ? 1 : 2); ++segments) {
      Run run;
      Pair pair(run);
      BOOST_REQUIRE(pair.create(shared) && pair.connect());
      DAT_LMR_TRIPLET to[] = {pair.local(1024, 0), pair.local(2048, 0)};
      DAT_LMR_TRIPLET from = pair.local(0, 0);
      const DAT_RETURN posted =
          shared ? dat_srq_post_recv(pair.srq, segments, to, {})
                 : dat_ep_post_recv(pair.passive.ep, segments, to, {}, DAT_COMPLETION_DEFAULT_FLAG);
      BOOST_REQUIRE_EQUAL(posted, DAT_SUCCESS);
      BOOST_REQUIRE_EQUAL(
          dat_ep_post_send(pair.active.ep, 1, &from, {}, DAT_COMPLETION_DEFAULT_FLAG), DAT_SUCCESS);
      BOOST_CHECK(run.expect_done(pair.active.request_evd, pair.active.connect_evd));
      BOOST_CHECK(run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd));
      check_clean(run);
    }
  }
}

// The kernel does not destroy the id of an iWARP request before the request is answered. Meanwhile
// the consumer gets the event of its attempt, and other connections are made.
BOOST_AUTO_TEST_CASE(iwarp_request_is_given_up) {
  const Siw siw;
  for (const bool times_out : {true, false}) {
    for (const bool accepted : {true, false}) {
      Run run;
      Pair pair(run);
      faults::End late;
      BOOST_REQUIRE(pair.create() && pair.make_end(late));
      DAT_EVENT event{};
      BOOST_REQUIRE_EQUAL(
          dat_ep_connect(pair.active.ep, run.attr.ia_address_ptr, faults::conn_qual(),
                         times_out ? 20'000 : DAT_TIMEOUT_INFINITE, 0, nullptr, DAT_QOS_BEST_EFFORT,
                         DAT_CONNECT_DEFAULT_FLAG),
          DAT_SUCCESS);
      BOOST_REQUIRE(run.expect(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT, &event));
      DAT_CR_HANDLE const cr = event.event_data.cr_arrival_event_data.cr_handle;
      if (!times_out)
        BOOST_REQUIRE_EQUAL(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
      BOOST_CHECK(run.expect(
          pair.active.connect_evd,
          times_out ? DAT_CONNECTION_EVENT_TIMED_OUT : DAT_CONNECTION_EVENT_DISCONNECTED, &event));
      BOOST_CHECK_EQUAL(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
      BOOST_CHECK(pair.connect());
      if (accepted) {
        BOOST_CHECK_EQUAL(dat_cr_accept(cr, late.ep, 0, nullptr), DAT_SUCCESS);
        BOOST_CHECK(
            run.expect(late.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, &event));
      } else {
        BOOST_CHECK_EQUAL(dat_cr_reject(cr, 0, nullptr), DAT_SUCCESS);
      }
      check_clean(run);
    }
  }
}

// A message takes a buffer of an SRQ before the post of the buffer has returned.
BOOST_AUTO_TEST_CASE(buffer_is_taken_while_it_is_posted) {
  Run run("mock", true);
  Pair pair(run);
  BOOST_REQUIRE(pair.create(true) && pair.connect());
  DAT_LMR_TRIPLET from = pair.local(0, 32);
  DAT_LMR_TRIPLET to = pair.local(1024, 64);
  BOOST_REQUIRE_EQUAL(dat_ep_post_send(pair.active.ep, 1, &from, {}, DAT_COMPLETION_DEFAULT_FLAG),
                      DAT_SUCCESS);
  verbs_mock_hold_calls(VERBS_MOCK_HOLD_AFTER);
  DAT_RETURN posted = DAT_SUCCESS;
  std::thread poster([&] { posted = dat_srq_post_recv(pair.srq, 1, &to, {}); });
  while (verbs_mock_held_calls() == 0) std::this_thread::yield();
  BOOST_CHECK(run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd));
  DAT_SRQ_PARAM param{};
  const DAT_RETURN queried = dat_srq_query(pair.srq, DAT_SRQ_FIELD_ALL, &param);
  verbs_mock_hold_calls(VERBS_MOCK_HOLD_NONE);
  poster.join();
  BOOST_CHECK_EQUAL(posted, DAT_SUCCESS);
  BOOST_REQUIRE_EQUAL(queried, DAT_SUCCESS);
  BOOST_CHECK_EQUAL(param.available_dto_count, 0);
  BOOST_CHECK(run.expect_done(pair.active.request_evd, pair.active.connect_evd));
  check_clean(run);
}

// The queue grows with the endpoints whose suppressed requests complete there; what the device adds
// by rounding is not taken for entries that the consumer has asked for.
BOOST_AUTO_TEST_CASE(rounded_queues_do_not_inflate) {
  constexpr DAT_COUNT kDepth = 100;
  verbs_mock_round_cqs(true);
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create());
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  BOOST_REQUIRE_EQUAL(dat_evd_create(run.ia, kDepth, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
                      DAT_SUCCESS);
  run.on_finish("dat_evd_free", [evd] { return dat_evd_free(evd); });
  DAT_EP_PARAM like{};
  BOOST_REQUIRE_EQUAL(dat_ep_query(pair.active.ep, DAT_EP_FIELD_ALL, &like), DAT_SUCCESS);
  for (int i = 0; i < 128; ++i) {
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    BOOST_REQUIRE_EQUAL(
        dat_ep_create(run.ia, pair.pz, evd, evd, pair.active.connect_evd, &like.ep_attr, &ep),
        DAT_SUCCESS);
    run.on_finish("dat_ep_free", [ep] { return dat_ep_free(ep); });
  }
  const unsigned most = verbs_mock_most_cq_entries();
  verbs_mock_round_cqs(false);
  // 64 entries are always spare, and 3 suppressed requests of each endpoint may complete at a time,
  // for which the queue has 512. So 676 were requested.
  BOOST_CHECK_EQUAL(most, 1023U);
  check_clean(run);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
