// SPDX-License-Identifier: MIT OR GPL-2.0-only
// PSPs and CSPs, the requests that arrive there, and the EPs that a PSP may provide.
#include "tests/unit/dapl_ep/places.h"

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(service_points, Places)

// ---- PSP --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(bad_psp_arguments_are_refused) {
  DAT_PSP_HANDLE made = DAT_HANDLE_NULL;
  const auto create = [&](DAT_HANDLE adapter, DAT_CONN_QUAL conn_qual, DAT_HANDLE evd, int flags,
                          DAT_PSP_HANDLE* out) {
    return ia->psp_create_func(adapter, conn_qual, evd, raw_enum<DAT_PSP_FLAGS>(flags), out);
  };
  CHECK_CODE(create(pz, kService, cr_evd, 0, &made), invalid_handle(DAT_INVALID_HANDLE_IA));
  CHECK_CODE(create(ia.raw, kService, nullptr, 0, &made),
             invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
  CHECK_CODE(create(ia.raw, kService, ia.evd(DAT_EVD_DTO_FLAG), 0, &made),
             invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
  CHECK_CODE(create(ia.raw, kService, cr_evd, 2, &made), invalid_parameter(DAT_INVALID_ARG4));
  CHECK_CODE(create(ia.raw, kService, cr_evd, 0, nullptr), invalid_parameter(DAT_INVALID_ARG5));
  REQUIRE_OK(create(ia.raw, kService, cr_evd, 0, &made));
  CHECK_ERROR(ia->evd_free_func(cr_evd), DAT_INVALID_STATE);
  DAT_PSP_HANDLE second = DAT_HANDLE_NULL;
  CHECK_CODE(create(ia.raw, kService, cr_evd, 0, &second), dat_error(DAT_CONN_QUAL_IN_USE));
  const OpenIa elsewhere;
  CHECK_CODE(create(elsewhere.raw, kService, elsewhere.evd(DAT_EVD_CR_FLAG), 0, &second),
             DAT_CONN_QUAL_IN_USE);
  DAT_PSP_PARAM param{};
  REQUIRE_OK(ia->psp_query_func(made, raw_enum<DAT_PSP_PARAM_MASK>(0x10), &param));
  CHECK_CODE(ia->psp_query_func(made, DAT_PSP_FIELD_ALL, nullptr),
             invalid_parameter(DAT_INVALID_ARG3));
  CHECK_ERROR(ia->psp_query_func(cr_evd, DAT_PSP_FIELD_ALL, &param), DAT_INVALID_HANDLE);
  REQUIRE_OK(ia->psp_query_func(made, DAT_PSP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.conn_qual, kService);
  BOOST_CHECK_EQUAL(param.evd_handle, cr_evd);
  BOOST_CHECK_EQUAL(param.psp_flags, DAT_PSP_CONSUMER_FLAG);
  REQUIRE_OK(ia->psp_free_func(made));
  CHECK_ERROR(ia->psp_free_func(made), DAT_INVALID_HANDLE);
  REQUIRE_OK(create(ia.raw, kService, cr_evd, 0, &second));  // the qualifier is free at once
}

BOOST_AUTO_TEST_CASE(psp_on_any_qualifier_gets_its_own) {
  DAT_PSP_HANDLE psps[3] = {};
  DAT_CONN_QUAL quals[3] = {};
  CHECK_CODE(ia->psp_create_any_func(ia.raw, nullptr, cr_evd, DAT_PSP_CONSUMER_FLAG, psps),
             invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->psp_create_any_func(pz, quals, cr_evd, DAT_PSP_CONSUMER_FLAG, psps),
             invalid_handle(DAT_INVALID_HANDLE_IA));
  CHECK_CODE(ia->psp_create_any_func(ia.raw, quals, cr_evd, DAT_PSP_CONSUMER_FLAG, nullptr),
             invalid_parameter(DAT_INVALID_ARG5));
  for (int i = 0; i < 3; ++i)
    REQUIRE_OK(ia->psp_create_any_func(ia.raw, &quals[i], cr_evd, DAT_PSP_CONSUMER_FLAG, &psps[i]));
  BOOST_CHECK(quals[0] != quals[1] && quals[1] != quals[2] && quals[0] != quals[2]);
  BOOST_CHECK_GE(quals[0], 1024U);
  static_cast<void>(request(quals[1]));
  const auto arrival = take_request();
  BOOST_CHECK_EQUAL(arrival.sp_handle.psp_handle, psps[1]);
  BOOST_CHECK_EQUAL(arrival.conn_qual, quals[1]);
}

BOOST_AUTO_TEST_CASE(a_request_and_its_event) {
  const DAT_PSP_HANDLE place = psp();
  const Side active = request();
  const auto arrival = take_request();
  BOOST_CHECK_EQUAL(arrival.sp_handle.psp_handle, place);
  BOOST_CHECK_EQUAL(arrival.conn_qual, kService);
  BOOST_CHECK_EQUAL(arrival.truncate_flag, DAT_FALSE);
  BOOST_REQUIRE(arrival.local_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(arrival.local_ia_address_ptr->sa_family, AF_INET);
  const DAT_CR_PARAM param = query(arrival.cr_handle);
  DAT_EP_PARAM ends{};
  REQUIRE_OK(ia->ep_query_func(active.ep, DAT_EP_FIELD_ALL, &ends));
  BOOST_CHECK_EQUAL(param.remote_port_qual, ends.local_port_qual);
  BOOST_CHECK_EQUAL(param.remote_ia_address_ptr->sa_family, AF_INET);
  BOOST_CHECK(param.local_ep_handle == DAT_HANDLE_NULL);
  DAT_CR_PARAM dummy{};
  REQUIRE_OK(ia->cr_query_func(arrival.cr_handle, raw_enum<DAT_CR_PARAM_MASK>(0x20), &dummy));
  CHECK_CODE(ia->cr_query_func(arrival.cr_handle, DAT_CR_FIELD_ALL, nullptr),
             invalid_parameter(DAT_INVALID_ARG3));
  // EPs that the request cannot be accepted into.
  CHECK_CODE(ia->cr_accept_func(arrival.cr_handle, nullptr, 0, nullptr),
             invalid_handle(DAT_INVALID_HANDLE_EP));
  CHECK_CODE(ia->cr_accept_func(arrival.cr_handle, pz, 0, nullptr),
             invalid_handle(DAT_INVALID_HANDLE_EP));
  const OpenIa other;
  DAT_EP_HANDLE foreign = DAT_HANDLE_NULL;
  REQUIRE_OK(
      other->ep_create_func(other.raw, other.pz(), nullptr, nullptr, nullptr, nullptr, &foreign));
  CHECK_CODE(ia->cr_accept_func(arrival.cr_handle, foreign, 0, nullptr),
             invalid_handle(DAT_INVALID_HANDLE_EP));
  const Side passive = side();
  REQUIRE_OK(ia->cr_accept_func(arrival.cr_handle, passive.ep, 0, nullptr));
  CHECK_ERROR(ia->cr_accept_func(arrival.cr_handle, passive.ep, 0, nullptr), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->cr_query_func(arrival.cr_handle, DAT_CR_FIELD_ALL, &dummy), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->cr_reject_func(arrival.cr_handle, 0, nullptr), DAT_INVALID_HANDLE);
  run();
}

BOOST_AUTO_TEST_CASE(a_full_evd_is_a_full_backlog) {
  psp();
  std::vector<Side> sides;
  for (int i = 0; i < 9; ++i) sides.push_back(request());
  for (int i = 0; i < 8; ++i) BOOST_CHECK(empty(sides[static_cast<std::size_t>(i)].connect_evd));
  BOOST_CHECK_EQUAL(take_connection(sides[8].connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  BOOST_CHECK(empty(ia.async));
  static_cast<void>(take_cr());
  const Side late = request();
  BOOST_CHECK(empty(late.connect_evd));
  int left = 0;
  while (!empty(cr_evd)) ++left;
  BOOST_CHECK_EQUAL(left, 8);
}

BOOST_AUTO_TEST_CASE(a_cr_outlives_its_psp) {
  const DAT_PSP_HANDLE place = psp();
  const Side active = request();
  const Side too_late = side();
  REQUIRE_OK(connect(too_late.ep));  // in flight when the PSP ends
  REQUIRE_OK(ia->psp_free_func(place));
  run();
  BOOST_CHECK_EQUAL(take_connection(too_late.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  const Side passive = side();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), passive.ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK(empty(cr_evd));
}

BOOST_AUTO_TEST_CASE(rejected_with_data) {
  psp();
  const Side active = request();
  const DAT_CR_HANDLE cr = take_cr();
  std::uint8_t data[3] = {9, 8, 7};
  CHECK_CODE(ia->cr_reject_func(cr, -1, data), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->cr_reject_func(cr, 257, data), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->cr_reject_func(cr, 3, nullptr), invalid_parameter(DAT_INVALID_ARG3));
  REQUIRE_OK(ia->cr_reject_func(cr, 3, data));
  run();
  DAT_EVENT event{};
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd, &event),
                    DAT_CONNECTION_EVENT_PEER_REJECTED);
  BOOST_REQUIRE_EQUAL(event.event_data.connect_event_data.private_data_size, 3);
  BOOST_CHECK_EQUAL(
      static_cast<const std::uint8_t*>(event.event_data.connect_event_data.private_data)[2], 7);
}

BOOST_AUTO_TEST_CASE(a_request_ignored_until_the_ia_closes) {
  const OpenIa other;  // the peer
  const DAT_PZ_HANDLE zone = other.pz();
  const DAT_EVD_HANDLE dto = other.evd(DAT_EVD_DTO_FLAG);
  const DAT_EVD_HANDLE connection = other.evd(DAT_EVD_CONNECTION_FLAG);
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(other->ep_create_func(other.raw, zone, dto, dto, connection, nullptr, &ep));
  psp();
  REQUIRE_OK(connect(ep));
  run();
  REQUIRE_OK(ia.close());
  run();
  DAT_EVENT event{};
  REQUIRE_OK(other->evd_dequeue_func(connection, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_CONNECTION_EVENT_PEER_REJECTED));
}

BOOST_AUTO_TEST_CASE(request_at_a_provider_psp_has_an_ep) {
  psp(kService, DAT_PSP_PROVIDER_FLAG);
  const Side active = request();
  const DAT_CR_HANDLE cr = take_cr();
  const DAT_EP_HANDLE ep = query(cr).local_ep_handle;
  BOOST_REQUIRE(ep != DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(state(ep), DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
  DAT_EP_PARAM param{};
  REQUIRE_OK(ia->ep_query_func(ep, DAT_EP_FIELD_ALL, &param));
  BOOST_CHECK(param.pz_handle == DAT_HANDLE_NULL);
  BOOST_CHECK(param.connect_evd_handle == DAT_HANDLE_NULL);
  BOOST_CHECK(param.remote_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_read_in, 4);  // the peer's max_rdma_read_out
  BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_read_out, 4);
  Buffer buffer(ia, pz);
  CHECK_CODE(post_recv(ep, buffer, 1), invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
  CHECK_CODE(ia->cr_accept_func(cr, side().ep, 0, nullptr), invalid_handle(DAT_INVALID_HANDLE_EP));
  CHECK_CODE(ia->cr_accept_func(cr, nullptr, 0, nullptr),
             invalid_state(DAT_INVALID_STATE_EP_NOTREADY));  // not configured yet
  param.pz_handle = pz;
  param.recv_evd_handle = ia.evd(DAT_EVD_DTO_FLAG);
  param.request_evd_handle = param.recv_evd_handle;
  param.connect_evd_handle = ia.evd(DAT_EVD_CONNECTION_FLAG);
  REQUIRE_OK(ia->ep_modify_func(ep,
                                DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                    DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                    DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                                &param));
  REQUIRE_OK(post_recv(ep, buffer, 1));
  REQUIRE_OK(ia->cr_accept_func(cr, nullptr, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(take_connection(param.connect_evd_handle), DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(ia->ep_free_func(ep));  // now owned by the consumer
  run();
}

BOOST_AUTO_TEST_CASE(provider_ep_rejected) {
  psp(kService, DAT_PSP_PROVIDER_FLAG);
  const Side active = request();
  const DAT_CR_HANDLE cr = take_cr();
  const DAT_EP_HANDLE ep = query(cr).local_ep_handle;
  CHECK_ERROR(ia->ep_free_func(ep), DAT_INVALID_STATE);
  REQUIRE_OK(ia->cr_reject_func(cr, 0, nullptr));
  BOOST_CHECK(dapl::handle_cast<dapl::Ep>(ep) == nullptr);
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_PEER_REJECTED);
}

BOOST_AUTO_TEST_CASE(no_provider_ep_left_behind_by_a_full_evd) {
  psp(kService, DAT_PSP_PROVIDER_FLAG);
  for (int i = 0; i < 9; ++i) static_cast<void>(request());
  int eps = 0;
  ia.object().for_each<dapl::Ep>(
      [&eps](dapl::Ep& ep) { eps += ep.state() == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING; });
  BOOST_CHECK_EQUAL(eps, 8);
  int crs = 0;
  ia.object().for_each<dapl::Cr>([&crs](dapl::Cr&) { ++crs; });
  BOOST_CHECK_EQUAL(crs, 8);
}

// ---- CSP --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(bad_csp_arguments_are_refused) {
  DAT_COMM comm{AF_INET, SOCK_STREAM, 0};
  transport::SocketAddress place = fake::Network::address();
  place.set_port(2345);
  DAT_CSP_HANDLE made = DAT_HANDLE_NULL;
  const auto create = [&](DAT_COMM* c, DAT_IA_ADDRESS_PTR address, DAT_HANDLE evd,
                          DAT_CSP_HANDLE* out) {
    return ia->csp_create_func(ia.raw, c, address, evd, out);
  };
  CHECK_CODE(ia->csp_create_func(pz, &comm, place.get(), cr_evd, &made),
             invalid_handle(DAT_INVALID_HANDLE_IA));
  CHECK_CODE(create(&comm, place.get(), pz, &made), invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
  CHECK_CODE(create(&comm, place.get(), ia.evd(DAT_EVD_DTO_FLAG), &made),
             invalid_handle(DAT_INVALID_HANDLE_EVD_CR));
  CHECK_CODE(create(nullptr, place.get(), cr_evd, &made), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(create(&comm, place.get(), cr_evd, nullptr), invalid_parameter(DAT_INVALID_ARG5));
  DAT_COMM datagrams{AF_INET, SOCK_DGRAM, 0};
  CHECK_CODE(create(&datagrams, place.get(), cr_evd, &made), dat_error(DAT_COMM_NOT_SUPPORTED));
  DAT_COMM local{AF_UNIX, SOCK_STREAM, 0};  // whatever the address
  CHECK_CODE(create(&local, place.get(), cr_evd, &made), dat_error(DAT_COMM_NOT_SUPPORTED));
  DAT_COMM six{AF_INET6, SOCK_STREAM, 0};
  CHECK_CODE(create(&six, place.get(), cr_evd, &made), invalid_parameter(DAT_INVALID_ARG3));
  REQUIRE_OK(create(&comm, place.get(), cr_evd, &made));
  DAT_CSP_HANDLE second = DAT_HANDLE_NULL;
  CHECK_CODE(create(&comm, place.get(), cr_evd, &second), dat_error(DAT_PORT_IN_USE));
  DAT_CSP_PARAM param{};
  REQUIRE_OK(ia->csp_query_func(made, raw_enum<DAT_CSP_PARAM_MASK>(0x10), &param));
  CHECK_CODE(ia->csp_query_func(made, DAT_CSP_FIELD_ALL, nullptr),
             invalid_parameter(DAT_INVALID_ARG3));
  REQUIRE_OK(ia->csp_query_func(made, DAT_CSP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.comm->type, SOCK_STREAM);
  BOOST_CHECK_EQUAL(param.address_ptr->sa_family, AF_INET);
  BOOST_CHECK_EQUAL(param.evd_handle, cr_evd);
  REQUIRE_OK(ia->csp_free_func(made));
  CHECK_ERROR(ia->csp_free_func(made), DAT_INVALID_HANDLE);
  REQUIRE_OK(create(&comm, nullptr, cr_evd, &made));  // any address, any port
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(2346);
  CHECK_CODE(create(&six, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&any), cr_evd, &second),
             dat_error(DAT_COMM_NOT_SUPPORTED));  // the adapter has an IPv4 address
  CHECK_CODE(create(&six, nullptr, cr_evd, &second), dat_error(DAT_COMM_NOT_SUPPORTED));
  sockaddr_in all{};
  all.sin_family = AF_INET;
  all.sin_port = htons(2346);
  REQUIRE_OK(create(&comm, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&all), cr_evd, &made));
  CHECK_CODE(create(&comm, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&all), cr_evd, &second),
             dat_error(DAT_PORT_IN_USE));
}

// ---- inside agents ----------------------------------------------------------------------------

// An agent that dequeues the request and frees the PSP whose event called it.
struct OneShot {
  const OpenIa* ia;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  DAT_RETURN code = DAT_INTERNAL_ERROR;
  DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
  [[nodiscard]] DAT_OS_WAIT_PROXY_AGENT agent() {
    return {
        this, [](DAT_PVOID self, DAT_EVD_HANDLE evd) {
          auto* const shot = static_cast<OneShot*>(self);
          DAT_EVENT event{};
          if (evd == DAT_HANDLE_NULL || (*shot->ia)->evd_dequeue_func(evd, &event) != DAT_SUCCESS)
            return;
          shot->cr = event.event_data.cr_arrival_event_data.cr_handle;
          shot->code = (*shot->ia)->psp_free_func(shot->psp);
        }};
  }
};

BOOST_AUTO_TEST_CASE(psp_freed_from_inside_its_own_event) {
  OneShot shot{&ia};
  REQUIRE_OK(ia->evd_modify_cno_func(cr_evd, ia.cno(shot.agent())));
  shot.psp = psp();
  const Side active = request();
  finish_agents(ia);
  CHECK_CODE(shot.code, DAT_SUCCESS);
  BOOST_REQUIRE(shot.cr != DAT_HANDLE_NULL);
  REQUIRE_OK(ia->cr_accept_func(shot.cr, side().ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
