// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "connecting.h"
#include "harness.h"

#include <netinet/in.h>

#include <cstring>
#include <set>

// Connections: service points and the requests that arrive at them.
namespace conformance {

BOOST_AUTO_TEST_SUITE(connection)

BOOST_AUTO_TEST_CASE(conn_accept_destroys_cr) {
  Pair pair;
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  DAT_CR_PARAM param{};
  CHECK_TYPE(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(conn_accept_bad_ep_keeps_cr, *covers("conn_accept_needs_ep")) {
  Pair pair;
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  CHECK_TYPE(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, nullptr),
             DAT_INVALID_HANDLE);  // conn_accept_needs_ep
  CHECK_TYPE(dat_cr_accept(cr, pair.active.ep, 0, nullptr), DAT_INVALID_STATE);  // it is connecting
  CHECK_TYPE(dat_cr_accept(cr, pair.pz, 0, nullptr), DAT_INVALID_HANDLE);
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(conn_cr_event_fields, *covers("conn_cr_query")) {
  Pair pair;
  REQUIRE_OK(connect_to(pair, pair.conn_qual));
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  const auto& arrival = event.event_data.cr_arrival_event_data;
  BOOST_CHECK(arrival.sp_handle.psp_handle == pair.psp);
  BOOST_CHECK_EQUAL(arrival.conn_qual, pair.conn_qual);
  BOOST_CHECK_EQUAL(arrival.truncate_flag, DAT_FALSE);
  BOOST_REQUIRE(arrival.local_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(arrival.local_ia_address_ptr->sa_family,
                    pair.ia.attr.ia_address_ptr->sa_family);
  const DAT_CR_PARAM param = query_cr(arrival.cr_handle);  // conn_cr_query
  BOOST_REQUIRE(param.remote_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(param.remote_ia_address_ptr->sa_family, pair.ia.attr.ia_address_ptr->sa_family);
  BOOST_CHECK(param.local_ep_handle == DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(param.private_data_size, 0);
  CHECK_TYPE(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_cr_reject(arrival.cr_handle, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

BOOST_AUTO_TEST_CASE(conn_handoff, *covers("ofa_1_cr_handoff")) {
  Pair pair;
  const Evd other_evd = make_evd(pair.ia, DAT_EVD_CR_FLAG, 8);
  const DAT_CONN_QUAL other_qual = fresh_conn_qual();
  Psp other;
  REQUIRE_OK(dat_psp_create(pair.ia, other_qual, other_evd, DAT_PSP_CONSUMER_FLAG, other.out()));
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr(kPatience, "handed");
  CHECK_TYPE_OR(dat_cr_handoff(cr, fresh_conn_qual()), DAT_INVALID_PARAMETER, DAT_NOT_IMPLEMENTED);
  const DAT_RETURN rc = dat_cr_handoff(cr, other_qual);
  if (skip_unless(
          DAT_GET_TYPE(rc) != DAT_NOT_IMPLEMENTED && DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED,
          "the provider does not hand off requests")) {
    REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
    return;
  }
  REQUIRE_OK(rc);
  const DAT_CR_HANDLE again = take_cr(other_evd);
  BOOST_CHECK_EQUAL(query_cr(again).private_data_size, 6);
  REQUIRE_OK(dat_cr_accept(again, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(conn_common_connect,
                     *covers("conn_common_needs_comm csp_port_in_use ofa_1_csp")) {
  Pair pair;
  DAT_COMM comm{};
  comm.domain = pair.ia.attr.ia_address_ptr->sa_family;
  comm.type = SOCK_STREAM;
  comm.protocol = 0;
  sockaddr_in6 storage{};
  std::memcpy(&storage, pair.ia.attr.ia_address_ptr,
              comm.domain == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  storage.sin6_port =
      htons(static_cast<std::uint16_t>(fresh_conn_qual()));  // same offset as sin_port
  auto* const address = reinterpret_cast<DAT_IA_ADDRESS_PTR>(&storage);
  DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
  const DAT_RETURN rc = dat_csp_create(pair.ia, &comm, address, pair.cr_evd, &csp);
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED, "the provider has no CSP")) return;
  REQUIRE_OK(rc);
  DAT_CSP_HANDLE second = DAT_HANDLE_NULL;
  CHECK_TYPE(dat_csp_create(pair.ia, &comm, address, pair.cr_evd, &second),
             DAT_PORT_IN_USE);  // csp_port_in_use
  CHECK_TYPE(dat_ep_common_connect(pair.active.ep, address, kPatience, 0, nullptr),
             DAT_INVALID_STATE);  // conn_common_needs_comm
  DAT_EP_PARAM param{};
  param.comm = comm;
  REQUIRE_OK(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_COMM, &param));
  REQUIRE_OK(dat_ep_common_connect(pair.active.ep, address, kPatience, 0, nullptr));
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  BOOST_CHECK(event.event_data.cr_arrival_event_data.sp_handle.csp_handle == csp);
  const DAT_CR_PARAM request = query_cr(event.event_data.cr_arrival_event_data.cr_handle);
  BOOST_REQUIRE(request.remote_ia_address_ptr != nullptr);  // the addresses are transferred
  BOOST_CHECK_EQUAL(request.remote_ia_address_ptr->sa_family, comm.domain);
  DAT_HANDLE_TYPE type{};
  REQUIRE_OK(dat_get_handle_type(csp, &type));  // handle_type_each
  BOOST_CHECK_EQUAL(type, DAT_HANDLE_TYPE_CSP);
  REQUIRE_OK(
      dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  DAT_CSP_PARAM csp_param{};
  REQUIRE_OK(dat_csp_query(csp, DAT_CSP_FIELD_ALL, &csp_param));
  BOOST_CHECK(csp_param.ia_handle == pair.ia.handle);
  REQUIRE_OK(dat_csp_free(csp));
}

// Programs look for a free port by comparing the code with DAT_CONN_QUAL_IN_USE, without
// DAT_GET_TYPE.
BOOST_AUTO_TEST_CASE(psp_qual_of_another_program, *covers("psp_qual_in_use")) {
  Pair pair;
  Ia second;
  const Evd requests = make_evd(second, DAT_EVD_CR_FLAG);
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  BOOST_CHECK_EQUAL(dat_psp_create(second, pair.conn_qual, requests, DAT_PSP_CONSUMER_FLAG, &psp),
                    static_cast<DAT_RETURN>(DAT_CONN_QUAL_IN_USE));
}

BOOST_AUTO_TEST_CASE(psp_qual_in_use) {
  Pair pair;
  DAT_PSP_HANDLE second = DAT_HANDLE_NULL;
  CHECK_TYPE(dat_psp_create(pair.ia, pair.conn_qual, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, &second),
             DAT_CONN_QUAL_IN_USE);
  REQUIRE_OK(dat_psp_free(pair.psp.release()));
  REQUIRE_OK(
      dat_psp_create(pair.ia, pair.conn_qual, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, pair.psp.out()));
}

BOOST_AUTO_TEST_CASE(psp_any_unique) {
  Pair pair;
  std::vector<Psp> points(5);
  std::set<DAT_CONN_QUAL> seen;
  for (Psp& point : points) {
    DAT_CONN_QUAL conn_qual = 0;
    REQUIRE_OK(
        dat_psp_create_any(pair.ia, &conn_qual, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, point.out()));
    BOOST_CHECK_GE(conn_qual, 1024U);
    BOOST_CHECK(seen.insert(conn_qual).second);
  }
  REQUIRE_OK(connect_to(pair, *seen.begin()));
  REQUIRE_OK(dat_cr_reject(take_cr(pair.cr_evd), 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  CHECK_TYPE(
      dat_psp_create_any(pair.ia, nullptr, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, points[0].out()),
      DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(psp_bad_evd) {
  Pair pair;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  CHECK_TYPE(
      dat_psp_create(pair.ia, fresh_conn_qual(), pair.active.recv_evd, DAT_PSP_CONSUMER_FLAG, &psp),
      DAT_INVALID_HANDLE);
  CHECK_TYPE(
      dat_psp_create(pair.ia, fresh_conn_qual(), DAT_HANDLE_NULL, DAT_PSP_CONSUMER_FLAG, &psp),
      DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_psp_create(pair.ia, fresh_conn_qual(), pair.cr_evd,
                            not_an_enumerator<DAT_PSP_FLAGS>(9), &psp),
             DAT_INVALID_PARAMETER);
}

// 0 means any port.
BOOST_AUTO_TEST_CASE(psp_qual_zero, *covers("psp_any_unique")) {
  Pair pair;
  Psp first;
  Psp second;
  REQUIRE_OK(dat_psp_create(pair.ia, 0, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, first.out()));
  REQUIRE_OK(dat_psp_create(pair.ia, 0, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, second.out()));
  DAT_PSP_PARAM param{};
  REQUIRE_OK(dat_psp_query(first, DAT_PSP_FIELD_ALL, &param));
  CHECK_TYPE(dat_psp_query(first, DAT_PSP_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  if (param.conn_qual == 0) return;  // the provider does not report which
  REQUIRE_OK(connect_to(pair, param.conn_qual));
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  BOOST_CHECK(event.event_data.cr_arrival_event_data.sp_handle.psp_handle == first);
  BOOST_CHECK_EQUAL(event.event_data.cr_arrival_event_data.conn_qual, param.conn_qual);
  REQUIRE_OK(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  // No service can listen on 0: an event, as if no service listened.
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  REQUIRE_OK(connect_to(pair, 0));
  const auto failed = next_event(pair.active.connect_evd);
  BOOST_REQUIRE(failed);
  BOOST_CHECK(failed->event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED ||
              failed->event_number == DAT_CONNECTION_EVENT_UNREACHABLE);
}

BOOST_AUTO_TEST_CASE(psp_provider_ep_state, *covers("conn_accept_extra_ep psp_provider_flag")) {
  Pair pair;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  Psp psp;
  const DAT_RETURN rc =
      dat_psp_create(pair.ia, conn_qual, pair.cr_evd, DAT_PSP_PROVIDER_FLAG, psp.out());
  if (pair.ia.provider().ep_creator == DAT_PSP_CREATES_EP_NEVER) {  // psp_provider_flag
    CHECK_TYPE(rc, DAT_MODEL_NOT_SUPPORTED);
    return;
  }
  REQUIRE_OK(rc);
  REQUIRE_OK(connect_to(pair, conn_qual));
  const DAT_CR_HANDLE cr = take_cr(pair.cr_evd);
  const DAT_EP_HANDLE ep = query_cr(cr).local_ep_handle;
  BOOST_REQUIRE(ep != DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(ep_state(ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
  BOOST_CHECK(param.pz_handle == DAT_HANDLE_NULL);
  BOOST_CHECK(param.recv_evd_handle == DAT_HANDLE_NULL);
  CHECK_TYPE(dat_cr_accept(cr, pair.passive.ep, 0, nullptr),
             DAT_INVALID_HANDLE);  // conn_accept_extra_ep
  param.pz_handle = pair.pz;
  param.recv_evd_handle = pair.passive.recv_evd;
  param.request_evd_handle = pair.passive.request_evd;
  param.connect_evd_handle = pair.passive.connect_evd;
  param.ep_attr.max_recv_dtos = 8;
  param.ep_attr.max_request_dtos = 8;
  param.ep_attr.max_recv_iov = 1;
  param.ep_attr.max_request_iov = 1;
  REQUIRE_OK(
      dat_ep_modify(ep,
                    DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                        DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE |
                        DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
                        DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
                    &param));
  REQUIRE_OK(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, nullptr));
  const Ep owner(ep);  // owned by the consumer since the accept
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(psp_free_rejects, *covers("psp_free_keeps_cr")) {
  Pair pair;
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  REQUIRE_OK(dat_psp_free(pair.psp.release()));
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));  // psp_free_keeps_cr
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  pair.disconnect();
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  REQUIRE_OK(connect_to(pair, pair.conn_qual));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

BOOST_AUTO_TEST_CASE(rsp_ep_reserved, *covers("rsp_ep_not_unconnected")) {
  Pair pair;
  Rsp rsp;
  REQUIRE_OK(dat_rsp_create(pair.ia, fresh_conn_qual(), pair.passive.ep, pair.cr_evd, rsp.out()));
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_RESERVED);
  CHECK_TYPE(dat_ep_free(pair.passive.ep), DAT_INVALID_STATE);  // ep_free_reserved
  DAT_RSP_HANDLE second = DAT_HANDLE_NULL;
  CHECK_TYPE(dat_rsp_create(pair.ia, fresh_conn_qual(), pair.passive.ep, pair.cr_evd, &second),
             DAT_INVALID_STATE);  // rsp_ep_not_unconnected
  REQUIRE_OK(dat_rsp_free(rsp.release()));
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(rsp_one_shot,
                     *covers("conn_accept_extra_ep rsp_event_sp_null rsp_free_after_request")) {
  Pair pair;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, &rsp));
  REQUIRE_OK(connect_to(pair, conn_qual));
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  // rsp_event_sp_null; existing programs compare the handle with the RSP that they created.
  const DAT_RSP_HANDLE named = event.event_data.cr_arrival_event_data.sp_handle.rsp_handle;
  BOOST_CHECK(named == DAT_HANDLE_NULL || named == rsp);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
  // rsp_free_after_request: the RSP has ended, but existing programs still free it once.
  if (const DAT_RETURN freed = dat_rsp_free(rsp); freed == DAT_SUCCESS)
    BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
  CHECK_TYPE(dat_rsp_free(rsp), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_free(pair.passive.ep), DAT_INVALID_STATE);  // ep_free_passive
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  BOOST_CHECK(query_cr(cr).local_ep_handle == pair.passive.ep);
  End second;
  second.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(dat_ep_connect(second.ep, pair.ia.attr.ia_address_ptr, conn_qual, kPatience, 0,
                            nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  expect_event(second.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  CHECK_TYPE(dat_cr_accept(cr, pair.passive.ep, 0, nullptr),
             DAT_INVALID_HANDLE);  // conn_accept_extra_ep
  REQUIRE_OK(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(rsp_reject_returns_ep) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, &rsp));
  REQUIRE_OK(connect_to(pair, conn_qual));
  REQUIRE_OK(dat_cr_reject(take_cr(pair.cr_evd), 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_UNCONNECTED);
  expect_silence(pair.passive.recv_evd);  // pre-posted receives are kept
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  pair.connect();
  REQUIRE_OK(pair.active.post_send(out, 8, 2));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
}

// A program frees the EVD before it has seen the request: no other object can answer it.
BOOST_AUTO_TEST_CASE(conn_request_of_a_freed_evd) {
  Pair pair;
  Cno cno;
  REQUIRE_OK(dat_cno_create(pair.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  Evd requests = make_evd(pair.ia, DAT_EVD_CR_FLAG, 8, cno);
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  Psp psp;
  REQUIRE_OK(dat_psp_create(pair.ia, conn_qual, requests, DAT_PSP_CONSUMER_FLAG, psp.out()));
  const auto arrive = [&] {
    REQUIRE_OK(connect_to(pair, conn_qual));
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    REQUIRE_OK(dat_cno_wait(cno, kPatience, &triggered));
  };
  arrive();
  CHECK_TYPE(dat_evd_free(requests), DAT_INVALID_STATE);
  REQUIRE_OK(dat_psp_free(psp.release()));
  REQUIRE_OK(dat_evd_free(requests.release()));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);

  requests = make_evd(pair.ia, DAT_EVD_CR_FLAG, 8, cno);
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, requests, &rsp));
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  arrive();
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
  REQUIRE_OK(dat_evd_free(requests.release()));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_UNCONNECTED);
}

// The consumer has not created the request, and so need not free it.
BOOST_AUTO_TEST_CASE(conn_request_when_the_ia_closes) {
  Pair pair;
  Ia server;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  {
    const Evd requests = make_evd(server, DAT_EVD_CR_FLAG, 8);
    Psp psp;
    REQUIRE_OK(dat_psp_create(server, conn_qual, requests, DAT_PSP_CONSUMER_FLAG, psp.out()));
    REQUIRE_OK(connect_to(pair, conn_qual));
    expect_event(requests, DAT_CONNECTION_REQUEST_EVENT);
  }
  REQUIRE_OK(server.close(DAT_CLOSE_GRACEFUL_FLAG));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
