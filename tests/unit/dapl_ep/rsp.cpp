// SPDX-License-Identifier: MIT OR GPL-2.0-only
// RSPs: one request for one EP, and an EP made by the provider if the program names none.
#include "tests/unit/dapl_ep/places.h"

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(reserved, Places)

BOOST_AUTO_TEST_CASE(bad_rsp_arguments_are_refused) {
  const Side side = this->side();
  DAT_RSP_HANDLE made = DAT_HANDLE_NULL;
  const auto create = [&](DAT_CONN_QUAL conn_qual, DAT_HANDLE ep, DAT_HANDLE evd,
                          DAT_RSP_HANDLE* out) {
    return ia->rsp_create_func(ia.raw, conn_qual, ep, evd, out);
  };
  CHECK_CODE(ia->rsp_create_func(pz, kService, side.ep, cr_evd, &made),
             invalid_handle(DAT_INVALID_HANDLE_IA));
  CHECK_CODE(create(kService, pz, cr_evd, &made), invalid_handle(DAT_INVALID_HANDLE_EP));
  CHECK_CODE(create(kService, side.ep, side.recv_evd, &made),
             invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
  CHECK_CODE(create(kService, side.ep, cr_evd, nullptr), invalid_parameter(DAT_INVALID_ARG5));
  const DAT_PSP_HANDLE place = psp();
  CHECK_CODE(create(kService, side.ep, cr_evd, &made), dat_error(DAT_CONN_QUAL_IN_USE));
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
  REQUIRE_OK(ia->psp_free_func(place));
  REQUIRE_OK(create(kService, side.ep, cr_evd, &made));
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_RESERVED);
  DAT_RSP_PARAM param{};
  REQUIRE_OK(ia->rsp_query_func(made, raw_enum<DAT_RSP_PARAM_MASK>(0x10), &param));
  CHECK_CODE(ia->rsp_query_func(made, DAT_RSP_FIELD_ALL, nullptr),
             invalid_parameter(DAT_INVALID_ARG3));
  REQUIRE_OK(ia->rsp_query_func(made, DAT_RSP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.conn_qual, kService);
  BOOST_CHECK_EQUAL(param.evd_handle, cr_evd);
  BOOST_CHECK_EQUAL(param.ep_handle, side.ep);
  REQUIRE_OK(ia->rsp_free_func(made));
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
  CHECK_ERROR(ia->rsp_free_func(made), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(rsp_takes_one_request) {
  const Side passive = side();
  Buffer buffer(ia, pz);
  REQUIRE_OK(post_recv(passive.ep, buffer, 12));
  const DAT_RSP_HANDLE place = rsp(passive.ep);
  const Side second = side();
  const Side active = side();
  REQUIRE_OK(connect(active.ep));
  REQUIRE_OK(connect(second.ep));  // both are in flight
  run();
  BOOST_CHECK_EQUAL(take_connection(second.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  const auto arrival = take_request();
  BOOST_CHECK(empty(cr_evd));
  BOOST_CHECK(arrival.sp_handle.rsp_handle == place);
  BOOST_CHECK_EQUAL(arrival.conn_qual, kService);
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
  BOOST_CHECK_EQUAL(query(arrival.cr_handle).local_ep_handle, passive.ep);
  DAT_RSP_PARAM gone{};
  CHECK_ERROR(ia->rsp_query_func(place, DAT_RSP_FIELD_ALL, &gone), DAT_INVALID_HANDLE);
  REQUIRE_OK(ia->rsp_free_func(place));  // without effect; once, because existing programs do it
  CHECK_ERROR(ia->rsp_free_func(place), DAT_INVALID_HANDLE);
  CHECK_CODE(ia->cr_accept_func(arrival.cr_handle, passive.ep, 0, nullptr),
             invalid_handle(DAT_INVALID_HANDLE_EP));
  const DAT_PSP_HANDLE successor = psp();  // the connection qualifier is free
  REQUIRE_OK(ia->cr_accept_func(arrival.cr_handle, nullptr, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(post_send(active.ep, buffer, 1));
  BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).user_cookie.as_64, 12U);
  REQUIRE_OK(ia->psp_free_func(successor));
}

BOOST_AUTO_TEST_CASE(rsp_rejected_releases_the_ep) {
  const Side passive = side();
  Buffer buffer(ia, pz);
  REQUIRE_OK(post_recv(passive.ep, buffer, 12));
  static_cast<void>(rsp(passive.ep));
  static_cast<void>(request());
  CHECK_ERROR(ia->ep_free_func(passive.ep), DAT_INVALID_STATE);
  REQUIRE_OK(ia->cr_reject_func(take_cr(), 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_UNCONNECTED);
  const Side active = side();
  join(active, passive);  // the EP is reusable, with its receive still posted
  REQUIRE_OK(post_send(active.ep, buffer, 1));
  BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).user_cookie.as_64, 12U);
}

BOOST_AUTO_TEST_CASE(rsp_with_a_full_evd_listens_on) {
  const DAT_PSP_HANDLE other = psp(kService + 1);
  for (int i = 0; i < 8; ++i) static_cast<void>(request(kService + 1));
  REQUIRE_OK(ia->psp_free_func(other));
  const Side passive = side();
  const DAT_RSP_HANDLE place = rsp(passive.ep);
  const Side refused = request();
  BOOST_CHECK_EQUAL(take_connection(refused.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_RESERVED);
  static_cast<void>(take_cr());
  const Side active = request();
  BOOST_CHECK(empty(active.connect_evd));
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
  REQUIRE_OK(ia->rsp_free_func(place));
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
}

// Regression: the program was not told.
BOOST_AUTO_TEST_CASE(rsp_that_cannot_listen_on_is_reported) {
  const DAT_PSP_HANDLE other = psp(kService + 1);
  for (int i = 0; i < 8; ++i) static_cast<void>(request(kService + 1));
  REQUIRE_OK(ia->psp_free_func(other));
  const Side passive = side();
  const DAT_RSP_HANDLE place = rsp(passive.ep);
  const Side active = side();
  REQUIRE_OK(connect(active.ep));
  fake::settings().fail_from = 1;
  run();
  fake::settings().fail_from = 0;
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR));
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.dat_handle, place);
  REQUIRE_OK(ia->rsp_free_func(place));
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(rsp_without_ep) {
  const DAT_RSP_HANDLE place = rsp(DAT_HANDLE_NULL);
  DAT_RSP_PARAM param{};
  REQUIRE_OK(ia->rsp_query_func(place, DAT_RSP_FIELD_ALL, &param));
  BOOST_CHECK(param.ep_handle == DAT_HANDLE_NULL);
  static_cast<void>(request());
  const DAT_CR_HANDLE cr = take_cr();
  const DAT_EP_HANDLE ep = query(cr).local_ep_handle;
  BOOST_REQUIRE(ep != DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(state(ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
  REQUIRE_OK(ia->cr_reject_func(cr, 0, nullptr));
  BOOST_CHECK(dapl::handle_cast<dapl::Ep>(ep) == nullptr);
  run();
}

BOOST_AUTO_TEST_CASE(rsp_without_ep_and_with_a_full_evd_listens_on) {
  const DAT_PSP_HANDLE other = psp(kService + 1);
  for (int i = 0; i < 8; ++i) static_cast<void>(request(kService + 1));
  REQUIRE_OK(ia->psp_free_func(other));
  static_cast<void>(rsp(DAT_HANDLE_NULL));
  BOOST_CHECK_EQUAL(take_connection(request().connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  ia.object().for_each<dapl::Ep>([](dapl::Ep& ep) {  // the EP made for the request was destroyed
    BOOST_CHECK_NE(ep.state(), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
  });
  for (int i = 0; i < 8; ++i) static_cast<void>(take_cr());
  static_cast<void>(request());
  BOOST_CHECK_EQUAL(state(query(take_cr()).local_ep_handle),
                    DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
}

BOOST_AUTO_TEST_CASE(rsp_listens_on_when_there_are_no_more_eps) {
  const Rig few(true, [](transport::Attributes& limits) { limits.max_eps = 2; });
  DAT_RSP_HANDLE place = DAT_HANDLE_NULL;
  REQUIRE_OK(few.ia->rsp_create_func(few.ia.raw, kService, DAT_HANDLE_NULL, few.cr_evd, &place));
  const Side active = few.side();
  const Side second = few.side();
  REQUIRE_OK(few.connect(active.ep));
  run();
  BOOST_CHECK_EQUAL(few.take_connection(active.connect_evd),
                    DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  BOOST_CHECK(few.empty(few.cr_evd));
  REQUIRE_OK(few.ia->ep_free_func(second.ep));
  REQUIRE_OK(few.ia->ep_reset_func(active.ep));
  REQUIRE_OK(few.connect(active.ep));
  run();
  const auto arrival = few.take_request();
  BOOST_CHECK_EQUAL(arrival.sp_handle.rsp_handle, place);
  REQUIRE_OK(few.ia->cr_reject_func(arrival.cr_handle, 0, nullptr));
  run();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
