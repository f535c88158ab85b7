// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Connecting: arguments, outcomes, private data; dat_ep_dup_connect and dat_ep_common_connect.
#include "tests/unit/dapl_ep/support.h"

#include <cstring>
#include <functional>
#include <numeric>

namespace udapl::test {
namespace {

std::vector<std::uint8_t> pattern(std::size_t size) {
  std::vector<std::uint8_t> data(size);
  std::iota(data.begin(), data.end(), static_cast<std::uint8_t>(1));
  return data;
}

std::vector<std::uint8_t> data_of(const DAT_EVENT& event) {
  const auto& data = event.event_data.connect_event_data;
  const auto* const from = static_cast<const std::uint8_t*>(data.private_data);
  return {from, from + data.private_data_size};
}

transport::PrivateData as_span(const std::vector<std::uint8_t>& data) {
  return std::as_bytes(std::span(data));
}

constexpr sa_family_t kGidFamily = 27;  // AF_IB

BOOST_FIXTURE_TEST_SUITE(connecting, Rig)

BOOST_AUTO_TEST_CASE(bad_arguments_are_refused) {
  const Side side = this->side();
  transport::SocketAddress peer = fake::Network::address();
  std::uint8_t data[257] = {};
  const auto refuse = [&](DAT_RETURN code, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL conn_qual,
                          DAT_TIMEOUT timeout, DAT_COUNT size, DAT_PVOID bytes, int qos,
                          int flags) {
    CHECK_CODE(ia->ep_connect_func(side.ep, address, conn_qual, timeout, size, bytes,
                                   raw_enum<DAT_QOS>(qos), raw_enum<DAT_CONNECT_FLAGS>(flags)),
               code);
  };
  refuse(invalid_parameter(DAT_INVALID_ARG2), nullptr, kService, kLate, 0, nullptr, 0, 0);
  refuse(invalid_parameter(DAT_INVALID_ARG4), peer.get(), kService, 0, 0, nullptr, 0, 0);
  refuse(invalid_parameter(DAT_INVALID_ARG5), peer.get(), kService, kLate, -1, data, 0, 0);
  refuse(invalid_parameter(DAT_INVALID_ARG5), peer.get(), kService, kLate, 257, data, 0, 0);
  refuse(invalid_parameter(DAT_INVALID_ARG6), peer.get(), kService, kLate, 1, nullptr, 0, 0);
  refuse(dat_error(DAT_MODEL_NOT_SUPPORTED), peer.get(), kService, kLate, 0, nullptr, 3, 0);
  refuse(invalid_parameter(DAT_INVALID_ARG8), peer.get(), kService, kLate, 0, nullptr, 0, 3);
  refuse(invalid_parameter(DAT_INVALID_ARG8), peer.get(), kService, kLate, 0, nullptr, 0, 4);
  refuse(dat_error(DAT_MODEL_NOT_SUPPORTED), peer.get(), kService, kLate, 0, nullptr,
         DAT_QOS_ECONOMY, 0);
  refuse(dat_error(DAT_MODEL_NOT_SUPPORTED), peer.get(), kService, kLate, 0, nullptr, 0,
         DAT_CONNECT_MULTIPATH_REQUIRED_FLAG);

  const auto refuse_address = [&](const char* text, DAT_RETURN subtype) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    std::uint32_t host = 0;
    for (unsigned part = 0, i = 0; i < 4; ++i) {
      part = static_cast<unsigned>(std::strtoul(text, const_cast<char**>(&text), 10));
      host = host << 8 | part;
      if (*text == '.') ++text;
    }
    in.sin_addr.s_addr = htonl(host);
    CHECK_CODE(
        ia->ep_connect_func(side.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&in), kService, kLate, 0,
                            nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
        dat_error(DAT_INVALID_ADDRESS, subtype));
  };
  refuse_address("224.0.0.1", DAT_INVALID_ADDRESS_UNSUPPORTED);
  refuse_address("255.255.255.255", DAT_INVALID_ADDRESS_UNSUPPORTED);
  refuse_address("0.0.0.0", DAT_INVALID_ADDRESS_MALFORMED);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  refuse(dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
         reinterpret_cast<DAT_IA_ADDRESS_PTR>(&six), kService, kLate, 0, nullptr, 0, 0);
  six.sin6_addr.s6_addr[0] = 0xFF;
  refuse(dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
         reinterpret_cast<DAT_IA_ADDRESS_PTR>(&six), kService, kLate, 0, nullptr, 0, 0);
  six.sin6_family = AF_UNIX;
  refuse(dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
         reinterpret_cast<DAT_IA_ADDRESS_PTR>(&six), kService, kLate, 0, nullptr, 0, 0);

  // A GID is checked like an IPv6 address.
  sockaddr_in6 gid{};
  gid.sin6_family = kGidFamily;
  refuse(dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
         reinterpret_cast<DAT_IA_ADDRESS_PTR>(&gid), kService, kLate, 0, nullptr, 0, 0);
  gid.sin6_addr.s6_addr[0] = 0xFF;
  refuse(dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
         reinterpret_cast<DAT_IA_ADDRESS_PTR>(&gid), kService, kLate, 0, nullptr, 0, 0);

  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
  psp();
  CHECK_CODE(connect(side.ep, kService, pattern(256)),
             DAT_SUCCESS);  // the EP is unaffected by the failures
  run();
  BOOST_CHECK_EQUAL(take_cr() != DAT_HANDLE_NULL, true);
}

// struct sockaddr_ib has its address at the same offset as struct sockaddr_in6.
BOOST_AUTO_TEST_CASE(a_gid_is_an_ipv6_address_to_the_transport) {
  const Side side = this->side();
  sockaddr_in6 gid{};
  gid.sin6_family = kGidFamily;
  gid.sin6_addr.s6_addr[0] = 0xFE;
  gid.sin6_addr.s6_addr[1] = 0x80;
  gid.sin6_addr.s6_addr[15] = 7;
  REQUIRE_OK(ia->ep_connect_func(side.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&gid), kService,
                                 kLate, 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  DAT_EP_PARAM param{};
  REQUIRE_OK(ia->ep_query_func(side.ep, DAT_EP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.remote_port_qual, kService);
  BOOST_REQUIRE_EQUAL(param.remote_ia_address_ptr->sa_family, AF_INET6);
  const auto& remote = *reinterpret_cast<const sockaddr_in6*>(param.remote_ia_address_ptr);
  BOOST_CHECK(std::memcmp(&remote.sin6_addr, &gid.sin6_addr, sizeof gid.sin6_addr) == 0);
  run();
}

BOOST_AUTO_TEST_CASE(connect_and_accept_need_a_ready_ep) {
  DAT_EP_HANDLE no_evd = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, nullptr, nullptr, nullptr, nullptr, &no_evd));
  CHECK_CODE(connect(no_evd), invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
  psp();
  REQUIRE_OK(connect(side().ep));
  run();
  const DAT_CR_HANDLE cr = take_cr();
  CHECK_CODE(ia->cr_accept_func(cr, no_evd, 0, nullptr),
             invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
  REQUIRE_OK(ia->cr_reject_func(cr, 0, nullptr));
  run();
}

BOOST_AUTO_TEST_CASE(the_transport_refuses_at_once) {
  const Side side = this->side();
  qp(side.ep).refuse_connect = true;
  CHECK_CODE(connect(side.ep), dat_error(DAT_INSUFFICIENT_RESOURCES));
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(the_transport_refuses_the_accept) {
  psp();
  const Side active = side();
  const Side passive = side();
  REQUIRE_OK(connect(active.ep));
  run();
  const DAT_CR_HANDLE cr = take_cr();
  qp(passive.ep).refuse_connect = true;
  const Traced traced;
  CHECK_CODE(ia->cr_accept_func(cr, passive.ep, 0, nullptr), dat_error(DAT_INSUFFICIENT_RESOURCES));
  BOOST_CHECK(traced.has(trace::kNormal, "the transport failed to accept"));
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_UNCONNECTED);
  BOOST_CHECK(!ep_object(passive.ep)
                   .awaits_established_on(*static_cast<const dapl::Evd*>(passive.connect_evd)));
  qp(passive.ep).refuse_connect = false;  // the request can still be accepted or rejected
  REQUIRE_OK(ia->cr_accept_func(cr, passive.ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(private_data_arrives_and_lives_long_enough) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{256}}) {
    const Side active = side();
    const Side passive = side();
    const DAT_PSP_HANDLE listening = psp();
    std::vector<std::uint8_t> sent = pattern(size);
    REQUIRE_OK(connect(active.ep, kService, sent));
    const std::vector<std::uint8_t> original = sent;
    std::fill(sent.begin(), sent.end(), std::uint8_t{0});  // the data has been copied
    run();
    const DAT_CR_HANDLE cr = take_cr();
    DAT_CR_PARAM param{};
    REQUIRE_OK(ia->cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    const auto* const got = static_cast<const std::uint8_t*>(param.private_data);
    BOOST_CHECK(std::vector<std::uint8_t>(got, got + param.private_data_size) == original);

    std::vector<std::uint8_t> reply = pattern(size);
    CHECK_CODE(ia->cr_accept_func(cr, passive.ep, 257, reply.data()),
               invalid_parameter(DAT_INVALID_ARG3));
    CHECK_CODE(ia->cr_accept_func(cr, passive.ep, -1, reply.data()),
               invalid_parameter(DAT_INVALID_ARG3));
    CHECK_CODE(ia->cr_accept_func(cr, passive.ep, 3, nullptr), invalid_parameter(DAT_INVALID_ARG4));
    REQUIRE_OK(ia->cr_accept_func(cr, passive.ep, static_cast<DAT_COUNT>(size), reply.data()));
    run();
    DAT_EVENT event{};
    BOOST_CHECK_EQUAL(take_connection(active.connect_evd, &event),
                      DAT_CONNECTION_EVENT_ESTABLISHED);
    BOOST_CHECK_EQUAL(event.event_data.connect_event_data.ep_handle, active.ep);
    BOOST_CHECK(data_of(event) == original);
    DAT_EVENT passive_event{};
    BOOST_CHECK_EQUAL(take_connection(passive.connect_evd, &passive_event),
                      DAT_CONNECTION_EVENT_ESTABLISHED);
    BOOST_CHECK_EQUAL(passive_event.event_data.connect_event_data.private_data_size, 0);
    REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
    BOOST_CHECK(data_of(event) == original);  // still valid
    REQUIRE_OK(ia->psp_free_func(listening));
    run();
  }
}

BOOST_AUTO_TEST_CASE(each_outcome_of_a_connect) {
  const std::pair<std::function<void(fake::Qp&)>, int> outcomes[] = {
      {[](fake::Qp& qp) { qp.reject(as_span(pattern(5))); }, DAT_CONNECTION_EVENT_PEER_REJECTED},
      {[](fake::Qp& qp) { qp.refuse(); }, DAT_CONNECTION_EVENT_NON_PEER_REJECTED},
      {[](fake::Qp& qp) { qp.unreachable(); }, DAT_CONNECTION_EVENT_UNREACHABLE},
      {[](fake::Qp& qp) { qp.time_out(); }, DAT_CONNECTION_EVENT_TIMED_OUT}};
  psp();
  Buffer buffer(ia, pz);
  for (const auto& [cause, expected] : outcomes) {
    const Side side = this->side();
    REQUIRE_OK(post_recv(side.ep, buffer, 77));
    REQUIRE_OK(connect(side.ep));
    cause(qp(side.ep));
    BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    run();
    DAT_EVENT event{};
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd, &event), expected);
    BOOST_CHECK(empty(side.connect_evd));
    BOOST_CHECK_EQUAL(event.event_data.connect_event_data.ep_handle, side.ep);
    const bool rejected = expected == DAT_CONNECTION_EVENT_PEER_REJECTED;
    BOOST_CHECK(data_of(event) == pattern(rejected ? 5 : 0));
    BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_DISCONNECTED);
    const auto flushed = take_dto(side.recv_evd);
    BOOST_CHECK_EQUAL(flushed.status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(flushed.user_cookie.as_64, 77U);
    CHECK_ERROR(connect(side.ep), DAT_INVALID_STATE);
    // Reset and a new attempt always work.
    REQUIRE_OK(ia->ep_reset_func(side.ep));
    BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
    REQUIRE_OK(connect(side.ep));
    REQUIRE_OK(ia->ep_free_func(side.ep));
    run();
  }
}

BOOST_AUTO_TEST_CASE(missing_listener_is_a_rejection) {
  const Side side = this->side();
  REQUIRE_OK(connect(side.ep, 999));
  run();
  BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

BOOST_AUTO_TEST_CASE(accept_after_the_active_side_has_gone) {
  psp();
  const Side active = side();
  REQUIRE_OK(connect(active.ep));
  run();
  const DAT_CR_HANDLE cr = take_cr();
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  const Side passive = side();
  Buffer buffer(ia, pz);
  REQUIRE_OK(post_recv(passive.ep, buffer, 5));
  REQUIRE_OK(ia->cr_accept_func(cr, passive.ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(passive.connect_evd),
                    DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_DISCONNECTED);
  BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).status, DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(the_state_changes_no_later_than_the_event) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_CONNECTED);
  DAT_EP_PARAM param{};
  REQUIRE_OK(ia->ep_query_func(active.ep, DAT_EP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.remote_port_qual, kService);
  BOOST_REQUIRE(param.remote_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(param.remote_ia_address_ptr->sa_family, AF_INET);
  const DAT_PORT_QUAL port = param.local_port_qual;
  BOOST_CHECK_NE(port, 0U);
  REQUIRE_OK(ia->ep_query_func(passive.ep, DAT_EP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.remote_port_qual, port);
  BOOST_CHECK_EQUAL(param.local_port_qual, kService);
}

// ---- dup_connect, common_connect --------------------------------------------------------------

BOOST_AUTO_TEST_CASE(dup_connect_takes_the_peer_of_another) {
  const Side first = side();
  const Side passive = side();
  join(first, passive);
  const Side second = side();
  const auto dup = [this](DAT_EP_HANDLE ep, DAT_EP_HANDLE like, DAT_TIMEOUT timeout = kLate,
                          DAT_QOS qos = DAT_QOS_BEST_EFFORT) {
    return ia->ep_dup_connect_func(ep, like, timeout, 0, nullptr, qos);
  };
  CHECK_CODE(dup(second.ep, first.ep, 0), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(dup(second.ep, first.ep, kLate, DAT_QOS_PREMIUM), dat_error(DAT_MODEL_NOT_SUPPORTED));
  CHECK_CODE(dup(second.ep, pz), invalid_handle(DAT_INVALID_HANDLE_EP));
  const Rig elsewhere;
  CHECK_CODE(dup(second.ep, elsewhere.side().ep), invalid_handle(DAT_INVALID_HANDLE2));
  const Side third = side();
  REQUIRE_OK(dup(third.ep, passive.ep));  // nothing listens where its peer connected from
  run();
  BOOST_CHECK_EQUAL(take_connection(third.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  CHECK_ERROR(dup(first.ep, first.ep), DAT_INVALID_STATE);
  psp();
  REQUIRE_OK(dup(second.ep, first.ep));
  run();
  BOOST_CHECK_EQUAL(take_request().conn_qual, kService);
  REQUIRE_OK(ia->ep_disconnect_func(first.ep, DAT_CLOSE_ABRUPT_FLAG));
  CHECK_ERROR(dup(side().ep, first.ep), DAT_INVALID_STATE);
  run();
}

BOOST_AUTO_TEST_CASE(common_connect_reaches_a_csp) {
  transport::SocketAddress place = fake::Network::address();
  place.set_port(3456);
  DAT_COMM comm{AF_INET, SOCK_STREAM, 0};
  DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->csp_create_func(ia.raw, &comm, place.get(), cr_evd, &csp));
  const Side active = side();
  const auto common = [&](DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout) {
    return ia->ep_common_connect_func(active.ep, address, timeout, 0, nullptr);
  };
  CHECK_CODE(common(nullptr, kLate), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(common(place.get(), 0), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(common(place.get(), kLate),
             invalid_state(DAT_INVALID_STATE_EP_NOTREADY));  // no communicator
  DAT_EP_PARAM param{};
  param.comm = {AF_INET6, SOCK_STREAM, 0};
  REQUIRE_OK(ia->ep_modify_func(active.ep, DAT_EP_FIELD_COMM, &param));
  CHECK_ERROR(common(place.get(), kLate), DAT_INVALID_PARAMETER);
  param.comm = comm;
  REQUIRE_OK(ia->ep_modify_func(active.ep, DAT_EP_FIELD_COMM, &param));
  transport::SocketAddress no_port = fake::Network::address();
  CHECK_ERROR(common(no_port.get(), kLate), DAT_INVALID_ADDRESS);
  REQUIRE_OK(common(place.get(), kLate));
  run();
  const auto request = take_request();
  BOOST_CHECK_EQUAL(request.sp_handle.csp_handle, csp);
  BOOST_CHECK_EQUAL(request.conn_qual, 3456U);
  const Side passive = side();
  REQUIRE_OK(ia->cr_accept_func(request.cr_handle, passive.ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  CHECK_ERROR(ia->ep_dup_connect_func(side().ep, active.ep, kLate, 0, nullptr, DAT_QOS_BEST_EFFORT),
              DAT_MODEL_NOT_SUPPORTED);
}

// The connection manager may be slower than the peer's data, which a program may see in its memory.
BOOST_AUTO_TEST_CASE(requests_before_established) {
  const Side active = side();
  const Side passive = side();
  const DAT_PSP_HANDLE listening = psp();
  Buffer buffer(ia, pz);
  REQUIRE_OK(post_recv(active.ep, buffer, 1));
  REQUIRE_OK(connect(active.ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), passive.ep, 0, nullptr));
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_COMPLETION_PENDING);
  REQUIRE_OK(post_send(passive.ep, buffer, 4));
  run();
  BOOST_CHECK_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(ia->psp_free_func(listening));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
