// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The transport is out of resources at every call that needs some: the operation fails without a
// crash or a leak, and the next attempt succeeds.
#include "tests/unit/dapl_ep/support.h"

#include <functional>

namespace udapl::test {
namespace {

// Repeats `attempt`, making the first, second, ... creation in it fail, until it succeeds. Returns
// the number of failed attempts.
int fail_each(const std::function<DAT_RETURN()>& attempt) {
  for (int n = 1; n < 20; ++n) {
    fake::settings().fail_from = n;
    const DAT_RETURN code = attempt();
    fake::settings().fail_from = 0;
    if (code == DAT_SUCCESS) return n - 1;
    BOOST_CHECK_MESSAGE(is_error(code, DAT_INSUFFICIENT_RESOURCES), "0x" << std::hex << code);
  }
  BOOST_FAIL("it never succeeds");
  return 0;
}

BOOST_FIXTURE_TEST_SUITE(failures, Rig)

BOOST_AUTO_TEST_CASE(failures_of_ep_create) {
  const DAT_EVD_HANDLE evd = ia.evd(DAT_EVD_DTO_FLAG);
  const DAT_EP_ATTR attr = attributes();
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  BOOST_CHECK_EQUAL(
      fail_each([&] { return ia->ep_create_func(ia.raw, pz, evd, evd, nullptr, &attr, &ep); }), 1);
  REQUIRE_OK(ia->ep_free_func(ep));
  BOOST_CHECK_EQUAL(  // a CQ for the direction without EVD, and the QP
      fail_each([&] { return ia->ep_create_func(ia.raw, pz, evd, nullptr, nullptr, &attr, &ep); }),
      2);
  REQUIRE_OK(ia->ep_free_func(ep));
  REQUIRE_OK(ia->evd_free_func(evd));  // no reference is left
}

BOOST_AUTO_TEST_CASE(failures_of_ep_modify) {
  const Side side = this->side();
  Buffer buffer(ia, pz);
  REQUIRE_OK(post_recv(side.ep, buffer, 3));
  DAT_EP_PARAM param{};
  param.request_evd_handle = DAT_HANDLE_NULL;
  param.recv_evd_handle = ia.evd(DAT_EVD_DTO_FLAG);
  BOOST_CHECK_EQUAL(fail_each([&] {
                      const DAT_RETURN code = ia->ep_modify_func(
                          side.ep, DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE,
                          &param);
                      if (code != DAT_SUCCESS) {
                        DAT_EP_PARAM now{};
                        CHECK_CODE(ia->ep_query_func(side.ep, DAT_EP_FIELD_ALL, &now), DAT_SUCCESS);
                        BOOST_CHECK_EQUAL(now.recv_evd_handle, side.recv_evd);
                        BOOST_CHECK_EQUAL(now.request_evd_handle, side.request_evd);
                      }
                      return code;
                    }),
                    1);
  REQUIRE_OK(ia->evd_free_func(side.recv_evd));
  const Side peer = this->side();
  join(peer, side);
  REQUIRE_OK(post_send(peer.ep, buffer, 1));
  BOOST_CHECK_EQUAL(take_dto(param.recv_evd_handle).user_cookie.as_64, 3U);
}

BOOST_AUTO_TEST_CASE(refused_ep_modify_changes_nothing) {
  const Side side = this->side();
  DAT_EP_PARAM param{};
  param.recv_evd_handle = ia.evd(DAT_EVD_DTO_FLAG);
  param.ep_attr.max_request_dtos = 3;
  constexpr DAT_EP_PARAM_MASK kBoth =
      DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS;
  qp(side.ep).refuse_modify = true;
  const Traced traced;
  CHECK_CODE(ia->ep_modify_func(side.ep, kBoth, &param), dat_error(DAT_INSUFFICIENT_RESOURCES));
  BOOST_CHECK(traced.has(trace::kNormal, "the transport failed to modify"));
  DAT_EP_PARAM now{};
  REQUIRE_OK(ia->ep_query_func(side.ep, DAT_EP_FIELD_ALL, &now));
  BOOST_CHECK_EQUAL(now.recv_evd_handle, side.recv_evd);
  BOOST_CHECK_EQUAL(now.ep_attr.max_request_dtos, 8);
  BOOST_CHECK_EQUAL(ep_object(side.ep).requests.cookies.limit(), 8U);
  CHECK_ERROR(ia->evd_free_func(side.recv_evd), DAT_INVALID_STATE);  // still in use by the EP
  qp(side.ep).refuse_modify = false;
  REQUIRE_OK(ia->ep_modify_func(side.ep, kBoth, &param));
  REQUIRE_OK(ia->evd_free_func(side.recv_evd));
}

BOOST_AUTO_TEST_CASE(failures_when_the_pz_is_set) {
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, nullptr, nullptr, nullptr, nullptr, nullptr, &ep));
  DAT_EP_PARAM param{};
  param.pz_handle = pz;
  BOOST_CHECK_EQUAL(
      fail_each([&] { return ia->ep_modify_func(ep, DAT_EP_FIELD_PZ_HANDLE, &param); }), 2);
  REQUIRE_OK(ia->ep_free_func(ep));
  REQUIRE_OK(ia->pz_free_func(pz));
}

BOOST_AUTO_TEST_CASE(failed_listen_leaves_nothing_behind) {
  DAT_PSP_HANDLE place = DAT_HANDLE_NULL;
  BOOST_CHECK_EQUAL(fail_each([&] {
                      return ia->psp_create_func(ia.raw, kService, cr_evd, DAT_PSP_CONSUMER_FLAG,
                                                 &place);
                    }),
                    1);
  REQUIRE_OK(ia->psp_free_func(place));
  const Side side = this->side();
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  BOOST_CHECK_EQUAL(fail_each([&] {
                      const DAT_RETURN code =
                          ia->rsp_create_func(ia.raw, kService, side.ep, cr_evd, &rsp);
                      if (code != DAT_SUCCESS)
                        BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
                      return code;
                    }),
                    1);
  REQUIRE_OK(ia->rsp_free_func(rsp));
  DAT_COMM comm{AF_INET, SOCK_STREAM, 0};
  DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
  BOOST_CHECK_EQUAL(
      fail_each([&] { return ia->csp_create_func(ia.raw, &comm, nullptr, cr_evd, &csp); }), 1);
  REQUIRE_OK(ia->csp_free_func(csp));
  REQUIRE_OK(ia->evd_free_func(cr_evd));
}

BOOST_AUTO_TEST_CASE(rsp_that_cannot_listen_again_is_freed) {
  for (int i = 0; i < 8; ++i) {
    const DAT_PSP_HANDLE place = psp(kService + 1);
    REQUIRE_OK(connect(side().ep, kService + 1));
    run();
    REQUIRE_OK(ia->psp_free_func(place));
  }
  const Side passive = side();
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rsp_create_func(ia.raw, kService, passive.ep, cr_evd, &rsp));
  const Side active = side();
  REQUIRE_OK(connect(active.ep));
  fake::settings().fail_from = 1;
  run();
  fake::settings().fail_from = 0;
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_RESERVED);
  REQUIRE_OK(ia->rsp_free_func(rsp));
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(a_provider_ep_when_there_are_no_more_eps) {
  fake::settings().attributes.max_eps = 2;
  const OpenIa few;
  const DAT_EVD_HANDLE requests = few.evd(DAT_EVD_CR_FLAG);
  const DAT_EVD_HANDLE connection = few.evd(DAT_EVD_CONNECTION_FLAG);
  const DAT_PZ_HANDLE zone = few.pz();
  DAT_PSP_HANDLE place = DAT_HANDLE_NULL;
  REQUIRE_OK(few->psp_create_func(few.raw, kService, requests, DAT_PSP_PROVIDER_FLAG, &place));
  DAT_EP_HANDLE eps[2] = {};
  for (DAT_EP_HANDLE& ep : eps)
    REQUIRE_OK(few->ep_create_func(few.raw, zone, nullptr, nullptr, connection, nullptr, &ep));
  REQUIRE_OK(connect(eps[0]));
  run();
  DAT_EVENT event{};
  REQUIRE_OK(few->evd_dequeue_func(connection, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_CONNECTION_EVENT_NON_PEER_REJECTED));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
