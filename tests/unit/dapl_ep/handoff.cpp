// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A request handed from one service point to another.
#include "tests/unit/dapl_ep/places.h"

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(handoff, Places)

BOOST_AUTO_TEST_CASE(handoff_to_a_psp) {
  psp();
  const DAT_PSP_HANDLE target = psp(kService + 1);
  const Side active = request();
  const DAT_CR_HANDLE cr = take_cr();
  CHECK_CODE(ia->cr_handoff_func(cr, 0), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->cr_handoff_func(cr, 12345), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_ERROR(ia->cr_handoff_func(pz, kService + 1), DAT_INVALID_HANDLE);
  BOOST_CHECK(query(cr).remote_ia_address_ptr != nullptr);  // unaffected
  REQUIRE_OK(ia->cr_handoff_func(cr, kService + 1));
  CHECK_ERROR(ia->cr_handoff_func(cr, kService + 1), DAT_INVALID_HANDLE);
  const auto arrival = take_request();
  BOOST_CHECK_EQUAL(arrival.sp_handle.psp_handle, target);
  BOOST_CHECK_EQUAL(arrival.conn_qual, kService + 1);
  REQUIRE_OK(ia->cr_accept_func(arrival.cr_handle, side().ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(ia->psp_free_func(target));
}

BOOST_AUTO_TEST_CASE(handoff_to_a_csp) {
  psp();
  psp(kService + 1);  // a service point that does not match
  DAT_COMM comm{AF_INET, SOCK_STREAM, 0};
  transport::SocketAddress place = fake::Network::address();
  place.set_port(2345);
  DAT_CSP_HANDLE target = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->csp_create_func(ia.raw, &comm, place.get(), cr_evd, &target));
  const Side active = request();
  REQUIRE_OK(ia->cr_handoff_func(take_cr(), 2345));
  const auto arrival = take_request();
  BOOST_CHECK_EQUAL(arrival.sp_handle.csp_handle, target);
  BOOST_CHECK_EQUAL(arrival.conn_qual, 2345U);
  REQUIRE_OK(ia->cr_accept_func(arrival.cr_handle, side().ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(ia->csp_free_func(target));
}

BOOST_AUTO_TEST_CASE(handoff_between_rsps) {
  const Side first = side();
  const Side second = side();
  static_cast<void>(rsp(first.ep));
  const DAT_RSP_HANDLE target = rsp(second.ep, kService + 1);
  const Side active = request();
  REQUIRE_OK(ia->cr_handoff_func(take_cr(), kService + 1));
  BOOST_CHECK_EQUAL(state(first.ep), DAT_EP_STATE_UNCONNECTED);
  BOOST_CHECK_EQUAL(state(second.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
  REQUIRE_OK(ia->rsp_free_func(target));
  CHECK_ERROR(ia->rsp_free_func(target), DAT_INVALID_HANDLE);
  REQUIRE_OK(ia->cr_accept_func(take_cr(), nullptr, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(take_connection(second.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(handoff_of_a_provider_ep) {
  psp(kService, DAT_PSP_PROVIDER_FLAG);
  psp(kService + 1, DAT_PSP_PROVIDER_FLAG);
  static_cast<void>(request());
  const DAT_CR_HANDLE cr = take_cr();
  const DAT_EP_HANDLE old = query(cr).local_ep_handle;
  REQUIRE_OK(ia->cr_handoff_func(cr, kService + 1));
  BOOST_CHECK(dapl::handle_cast<dapl::Ep>(old) == nullptr);
  const DAT_EP_HANDLE fresh = query(take_cr()).local_ep_handle;
  BOOST_CHECK_EQUAL(state(fresh), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
}

BOOST_AUTO_TEST_CASE(handoff_to_a_full_evd_changes_nothing) {
  psp();
  const DAT_EVD_HANDLE small = ia.evd(DAT_EVD_CR_FLAG, 1);
  DAT_PSP_HANDLE target = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->psp_create_func(ia.raw, kService + 1, small, DAT_PSP_CONSUMER_FLAG, &target));
  static_cast<void>(request(kService + 1));
  const Side active = request();
  const DAT_CR_HANDLE cr = take_cr();
  CHECK_ERROR(ia->cr_handoff_func(cr, kService + 1), DAT_INSUFFICIENT_RESOURCES);
  REQUIRE_OK(ia->cr_accept_func(cr, side().ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
}

// Regression: the handoff waited for the RSP, with a lock that dat_rsp_create needs if it fails.
BOOST_AUTO_TEST_CASE(handoff_finds_no_rsp_still_being_created) {
  psp();
  const Side active = request();
  const DAT_CR_HANDLE cr = take_cr();
  DAT_RETURN handed = DAT_SUCCESS;
  fake::settings().before_listen = [&] { handed = ia->cr_handoff_func(cr, kService + 1); };
  const Side second = side();
  static_cast<void>(rsp(second.ep, kService + 1));
  fake::settings().before_listen = nullptr;
  CHECK_CODE(handed, invalid_parameter(DAT_INVALID_ARG2));
  BOOST_CHECK(empty(cr_evd));
  REQUIRE_OK(ia->cr_handoff_func(cr, kService + 1));  // now it listens
  REQUIRE_OK(ia->cr_accept_func(take_cr(), nullptr, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
