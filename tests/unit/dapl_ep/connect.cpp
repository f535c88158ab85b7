// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The life of a connection: arguments, outcomes, private data, disconnect, reset, free.
#include "tests/unit/dapl_ep/support.h"

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

BOOST_FIXTURE_TEST_SUITE(connecting, Rig)

BOOST_AUTO_TEST_CASE(bad_arguments) {
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
  refuse(0x80060026, nullptr, kService, kLate, 0, nullptr, 0, 0);
  refuse(0x80060027, peer.get(), 0, kLate, 0, nullptr, 0, 0);
  refuse(0x80060028, peer.get(), kService, 0, 0, nullptr, 0, 0);
  refuse(0x80060029, peer.get(), kService, kLate, -1, data, 0, 0);
  refuse(0x80060029, peer.get(), kService, kLate, 257, data, 0, 0);
  refuse(0x8006002A, peer.get(), kService, kLate, 1, nullptr, 0, 0);
  refuse(0x8006002B, peer.get(), kService, kLate, 0, nullptr, 3, 0);
  refuse(0x8006002C, peer.get(), kService, kLate, 0, nullptr, 0, 3);
  refuse(0x8006002C, peer.get(), kService, kLate, 0, nullptr, 0, 4);
  refuse(0x80090000, peer.get(), kService, kLate, 0, nullptr, DAT_QOS_ECONOMY, 0);
  refuse(0x80090000, peer.get(), kService, kLate, 0, nullptr, 0,
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

  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
  psp();
  CHECK_CODE(connect(side.ep, kService, pattern(256)),
             DAT_SUCCESS);  // and the EP is as good as new
  run();
  BOOST_CHECK_EQUAL(take_cr() != DAT_HANDLE_NULL, true);
}

BOOST_AUTO_TEST_CASE(an_ep_that_is_not_ready) {
  DAT_EP_HANDLE no_evd = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, nullptr, nullptr, nullptr, nullptr, &no_evd));
  CHECK_CODE(connect(no_evd), 0x80070039);
  psp();
  REQUIRE_OK(connect(side().ep));
  run();
  const DAT_CR_HANDLE cr = take_cr();
  CHECK_CODE(ia->cr_accept_func(cr, no_evd, 0, nullptr), 0x80070039);
  REQUIRE_OK(ia->cr_reject_func(cr, 0, nullptr));
  run();
}

BOOST_AUTO_TEST_CASE(the_transport_refuses_at_once) {
  const Side side = this->side();
  qp(side.ep).refuse_connect = true;
  CHECK_CODE(connect(side.ep), dat_error(DAT_INSUFFICIENT_RESOURCES));
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(private_data_both_ways_and_its_life) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{256}}) {
    const Side active = side();
    const Side passive = side();
    const DAT_PSP_HANDLE listening = psp();
    std::vector<std::uint8_t> sent = pattern(size);
    REQUIRE_OK(connect(active.ep, kService, sent));
    const std::vector<std::uint8_t> original = sent;
    std::fill(sent.begin(), sent.end(), std::uint8_t{0});  // it was copied
    run();
    const DAT_CR_HANDLE cr = take_cr();
    DAT_CR_PARAM param{};
    REQUIRE_OK(ia->cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    const auto* const got = static_cast<const std::uint8_t*>(param.private_data);
    BOOST_CHECK(std::vector<std::uint8_t>(got, got + param.private_data_size) == original);

    std::vector<std::uint8_t> reply = pattern(size);
    CHECK_CODE(ia->cr_accept_func(cr, passive.ep, 257, reply.data()), 0x80060027);
    CHECK_CODE(ia->cr_accept_func(cr, passive.ep, -1, reply.data()), 0x80060027);
    CHECK_CODE(ia->cr_accept_func(cr, passive.ep, 3, nullptr), 0x80060028);
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
    BOOST_CHECK(data_of(event) == original);  // still there
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

BOOST_AUTO_TEST_CASE(no_listener) {
  const Side side = this->side();
  REQUIRE_OK(connect(side.ep, 999));
  run();
  BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

BOOST_AUTO_TEST_CASE(the_active_side_was_gone) {
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

// ---- the end ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(abrupt_disconnect) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(post_recv(active.ep, buffer, i));
  qp(active.ep).hold(true);
  for (std::uint64_t i = 10; i < 12; ++i)
    REQUIRE_OK(post_send(active.ep, buffer, i, 8, DAT_COMPLETION_SUPPRESS_FLAG));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_DISCONNECTED);
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto flushed = take_dto(active.recv_evd);
    BOOST_CHECK_EQUAL(flushed.status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(flushed.user_cookie.as_64, i);
    BOOST_CHECK_EQUAL(flushed.operation, DAT_DTO_RECEIVE);
  }
  for (std::uint64_t i = 10; i < 12; ++i) {  // suppression is for success only
    const auto flushed = take_dto(active.request_evd);
    BOOST_CHECK_EQUAL(flushed.status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(flushed.user_cookie.as_64, i);
  }
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  CHECK_CODE(ia->ep_disconnect_func(active.ep, raw_enum<DAT_CLOSE_FLAGS>(2)), 0x80060026);
  run();
  BOOST_CHECK(empty(active.connect_evd));
  BOOST_CHECK_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK(empty(passive.connect_evd));
}

BOOST_AUTO_TEST_CASE(graceful_disconnect_drains) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  Buffer from(ia, pz);
  Buffer to(ia, pz);
  REQUIRE_OK(post_recv(passive.ep, to, 1));
  REQUIRE_OK(post_recv(active.ep, to, 2));
  qp(active.ep).hold(true);
  REQUIRE_OK(post_send(active.ep, from, 3));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_DISCONNECT_PENDING);
  CHECK_CODE(post_send(active.ep, from, 4), 0x80070037);
  REQUIRE_OK(post_recv(active.ep, to, 5));
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  run();
  BOOST_CHECK(empty(active.connect_evd));
  qp(active.ep).hold(false);
  run();
  BOOST_CHECK_EQUAL(take_dto(active.request_evd).status, DAT_DTO_SUCCESS);
  BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).status, DAT_DTO_SUCCESS);
  for (const Side& side : {active, passive}) {
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    BOOST_CHECK(empty(side.connect_evd));
  }
  for (const std::uint64_t cookie : {2U, 5U})
    BOOST_CHECK_EQUAL(take_dto(active.recv_evd).user_cookie.as_64, cookie);
}

// Where what has completed is with the peer: without anything outstanding there is nothing to wait
// for, with a request there is, and one whose completion nobody has taken yet counts.
BOOST_AUTO_TEST_CASE(graceful_disconnect_at_rest_is_over_at_once) {
  const Rig rig(true, [](transport::Attributes& a) { a.completed_is_delivered = true; });
  Buffer from(rig.ia, rig.pz);
  Buffer to(rig.ia, rig.pz);
  for (const bool reaped : {true, false}) {
    const Side active = rig.side();
    const Side passive = rig.side();
    rig.join(active, passive);
    REQUIRE_OK(rig.post_recv(passive.ep, to, 1));
    REQUIRE_OK(rig.post_send(active.ep, from, 2));
    run();
    if (reaped) BOOST_CHECK_EQUAL(rig.take_dto(active.request_evd).status, DAT_DTO_SUCCESS);
    REQUIRE_OK(rig.ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
    const int at_once = rig.take_connection(active.connect_evd);
    BOOST_CHECK_EQUAL(at_once, reaped ? DAT_CONNECTION_EVENT_DISCONNECTED : 0);
    run();
    if (!reaped)
      BOOST_CHECK_EQUAL(rig.take_connection(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    BOOST_CHECK_EQUAL(rig.take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    for (const Side& side : {active, passive}) {
      BOOST_CHECK_EQUAL(rig.state(side.ep), DAT_EP_STATE_DISCONNECTED);
      BOOST_CHECK(rig.empty(side.connect_evd));
    }
    BOOST_CHECK_EQUAL(rig.take_dto(passive.recv_evd).status, DAT_DTO_SUCCESS);
    if (!reaped) BOOST_CHECK_EQUAL(rig.take_dto(active.request_evd).status, DAT_DTO_SUCCESS);
  }
}

BOOST_AUTO_TEST_CASE(a_graceful_disconnect_can_break_or_be_cut_short) {
  {
    Side side = reach(DAT_EP_STATE_DISCONNECT_PENDING);
    qp(side.ep).break_(transport::BreakReason::kTransportLost);
    run();
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_BROKEN);
    BOOST_CHECK(empty(side.connect_evd));
  }
  Side side = reach(DAT_EP_STATE_DISCONNECT_PENDING);
  REQUIRE_OK(ia->ep_disconnect_func(side.ep, DAT_CLOSE_ABRUPT_FLAG));
  run();
  BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK(empty(side.connect_evd));
}

BOOST_AUTO_TEST_CASE(one_terminal_event_whoever_comes_first) {
  for (int order = 0; order < 4; ++order) {
    const Side active = side();
    const Side passive = side();
    join(active, passive);
    fake::Qp& transport = qp(active.ep);
    int expected = DAT_CONNECTION_EVENT_DISCONNECTED;
    switch (order) {
      case 0:  // both sides at once
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
        REQUIRE_OK(ia->ep_disconnect_func(passive.ep, DAT_CLOSE_ABRUPT_FLAG));
        break;
      case 1:  // a report of a break is on its way when the consumer disconnects
        transport.break_(transport::BreakReason::kProtocol);
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
        break;
      case 2:  // the break is known before
        transport.break_(transport::BreakReason::kProtocol);
        run();
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_ABRUPT_FLAG));
        expected = DAT_CONNECTION_EVENT_BROKEN;
        break;
      default:  // the peer's end is known before
        REQUIRE_OK(ia->ep_disconnect_func(passive.ep, DAT_CLOSE_GRACEFUL_FLAG));
        run();
        REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
    }
    run();
    BOOST_CHECK_EQUAL(take_connection(active.connect_evd), expected);
    BOOST_CHECK(empty(active.connect_evd));
    BOOST_CHECK_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    BOOST_CHECK(empty(passive.connect_evd));
  }
}

BOOST_AUTO_TEST_CASE(a_disconnect_while_established_is_on_its_way) {
  const Side active = side();
  REQUIRE_OK(connect(active.ep, 1));
  qp(active.ep).establish();
  REQUIRE_OK(ia->ep_disconnect_func(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  run();
  BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK(empty(active.connect_evd));
  BOOST_CHECK_EQUAL(state(active.ep), DAT_EP_STATE_DISCONNECTED);
}

// The peer's first message may overtake the last one of the handshake.
BOOST_AUTO_TEST_CASE(established_precedes_what_came_before_it_on_a_merged_evd) {
  const DAT_EVD_HANDLE merged = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 64);
  DAT_EP_ATTR attr = attributes();
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, merged, merged, merged, &attr, &ep));
  DAT_EP_HANDLE neighbour = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, merged, merged, merged, &attr, &neighbour));
  const Side active = side();
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(active.ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), ep, 0, nullptr));
  Completions completions(ia, merged);
  completions.push_of(static_cast<dapl::Ep*>(ep), 1);
  completions.push_of(static_cast<dapl::Ep*>(neighbour), 2);
  completions.push_of(static_cast<dapl::Ep*>(ep), 3);
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 2U);
  BOOST_CHECK(empty(merged));
  DAT_EVENT event{};
  DAT_COUNT more = -1;
  BOOST_CHECK_NE(ia->evd_wait_func(merged, 1000, 1, &event, &more), DAT_SUCCESS);
  run();
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 1U);
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 3U);
  BOOST_CHECK(empty(merged));
  REQUIRE_OK(ia->psp_free_func(listening));
}

// With the connection, what was early ends, too, and what was set aside is not lost.
BOOST_AUTO_TEST_CASE(what_was_early_precedes_the_end_on_a_merged_evd) {
  const DAT_EVD_HANDLE merged = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 64);
  DAT_EP_ATTR attr = attributes();
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, merged, merged, merged, &attr, &ep));
  const Side active = side();
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(active.ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), ep, 0, nullptr));
  Completions completions(ia, merged);
  completions.push_of(static_cast<dapl::Ep*>(ep), 1);
  BOOST_CHECK(empty(merged));
  REQUIRE_OK(ia->ep_disconnect_func(ep, DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_EQUAL(take_dto(merged).user_cookie.as_64, 1U);
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_DISCONNECTED);
  REQUIRE_OK(ia->psp_free_func(listening));
  run();
}

BOOST_AUTO_TEST_CASE(successes_precede_the_end_on_a_merged_evd) {
  DAT_EP_ATTR attr = attributes();
  const DAT_EVD_HANDLE merged = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 64);
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, merged, merged, merged, &attr, &ep));
  const Side passive = side();
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), passive.ep, 0, nullptr));
  run();
  REQUIRE_OK(ia->psp_free_func(listening));
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(post_recv(passive.ep, buffer, i));
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(post_send(ep, buffer, i));
  REQUIRE_OK(post_recv(ep, buffer, 9));
  REQUIRE_OK(ia->ep_disconnect_func(ep, DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_EQUAL(take_connection(merged), DAT_CONNECTION_EVENT_ESTABLISHED);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto sent = take_dto(merged);
    BOOST_CHECK_EQUAL(sent.status, DAT_DTO_SUCCESS);
    BOOST_CHECK_EQUAL(sent.user_cookie.as_64, i);
  }
  int ends = 0;
  int flushes = 0;
  DAT_EVENT event{};
  while (ia->evd_dequeue_func(merged, &event) == DAT_SUCCESS) {
    ends += event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED;
    flushes += event.event_number == DAT_DTO_COMPLETION_EVENT;
  }
  BOOST_CHECK_EQUAL(ends, 1);
  BOOST_CHECK_EQUAL(flushes, 1);
  run();
}

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

BOOST_AUTO_TEST_CASE(many_lives) {
  const Side active = side();
  const Side passive = side();
  Buffer from(ia, pz);
  Buffer to(ia, pz);
  for (std::uint64_t life = 0; life < 200; ++life) {
    join(active, passive);
    // More than is dequeued: what is left at the reset must not disturb the next life.
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
  static_cast<void>(take_dto(passive.recv_evd));  // the others are in the stash now
  REQUIRE_OK(ia->ep_free_func(passive.ep));
  REQUIRE_OK(ia->ep_free_func(active.ep));
  run();
  DAT_EVENT event{};  // what is left names a dead EP or is gone; either way this does not crash
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

BOOST_AUTO_TEST_CASE(free_a_connected_ep_tells_the_peer) {
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
    if (by_disconnect) {  // the agent runs in our thread, inside dat_ep_disconnect
      REQUIRE_OK(ia->ep_disconnect_func(side.ep, DAT_CLOSE_ABRUPT_FLAG));
    } else {  // inside the transport's report
      REQUIRE_OK(ia->ep_disconnect_func(peer.ep, DAT_CLOSE_ABRUPT_FLAG));
      run();
    }
    CHECK_CODE(agent.code, DAT_SUCCESS);
    BOOST_CHECK(dapl::handle_cast<dapl::Ep>(side.ep) == nullptr);
    run();
    BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
  }
}

// ---- dup_connect, common_connect --------------------------------------------------------------

BOOST_AUTO_TEST_CASE(dup_connect) {
  const Side first = side();
  const Side passive = side();
  join(first, passive);
  const Side second = side();
  const auto dup = [this](DAT_EP_HANDLE ep, DAT_EP_HANDLE like, DAT_TIMEOUT timeout = kLate,
                          DAT_QOS qos = DAT_QOS_BEST_EFFORT) {
    return ia->ep_dup_connect_func(ep, like, timeout, 0, nullptr, qos);
  };
  CHECK_CODE(dup(second.ep, first.ep, 0), 0x80060027);
  CHECK_CODE(dup(second.ep, first.ep, kLate, DAT_QOS_PREMIUM), 0x80090000);
  CHECK_CODE(dup(second.ep, pz), 0x8005000C);
  CHECK_ERROR(dup(second.ep, passive.ep), DAT_INVALID_STATE);  // it went nowhere
  CHECK_ERROR(dup(first.ep, first.ep), DAT_INVALID_STATE);
  psp();
  REQUIRE_OK(dup(second.ep, first.ep));
  run();
  BOOST_CHECK_EQUAL(take_request().conn_qual, kService);
  REQUIRE_OK(ia->ep_disconnect_func(first.ep, DAT_CLOSE_ABRUPT_FLAG));
  CHECK_ERROR(dup(side().ep, first.ep), DAT_INVALID_STATE);
  run();
}

BOOST_AUTO_TEST_CASE(common_connect) {
  transport::SocketAddress place = fake::Network::address();
  place.set_port(3456);
  DAT_COMM comm{AF_INET, SOCK_STREAM, 0};
  DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->csp_create_func(ia.raw, &comm, place.get(), cr_evd, &csp));
  const Side active = side();
  const auto common = [&](DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout) {
    return ia->ep_common_connect_func(active.ep, address, timeout, 0, nullptr);
  };
  CHECK_CODE(common(nullptr, kLate), 0x80060026);
  CHECK_CODE(common(place.get(), 0), 0x80060027);
  CHECK_CODE(common(place.get(), kLate), 0x80070039);  // no communicator
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

// ---- asynchronous -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(watermarks) {
  const Side side = this->side();
  const Side peer = this->side();
  join(peer, side);
  const auto set = [&](DAT_COUNT soft, DAT_COUNT hard) {
    return ia->ep_set_watermark_func(side.ep, soft, hard);
  };
  CHECK_CODE(set(-2, 3), 0x80060026);
  CHECK_CODE(set(9, 3), 0x80060026);
  CHECK_CODE(set(3, -3), 0x80060027);
  CHECK_CODE(set(3, 9), 0x80060027);
  REQUIRE_OK(set(2, DAT_WATERMARK_INFINITE));
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(post_recv(side.ep, buffer, i));
  DAT_COUNT held = 0;
  DAT_COUNT span = 0;
  REQUIRE_OK(ia->ep_recv_query_func(side.ep, &held, &span));
  BOOST_CHECK_EQUAL(held, 4);
  BOOST_CHECK_GE(span, held);
  run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_ASYNC_ERROR_EP_BROKEN));
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.dat_handle, side.ep);
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason,
                    static_cast<DAT_COUNT>(DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT));
  BOOST_CHECK(empty(ia.async));
  REQUIRE_OK(set(DAT_WATERMARK_INFINITE, 3));
  run();
  BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_BROKEN);
}

BOOST_AUTO_TEST_CASE(watermarks_set_before_there_is_a_qp) {
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  const DAT_EVD_HANDLE recv = ia.evd(DAT_EVD_DTO_FLAG);
  REQUIRE_OK(ia->ep_create_func(ia.raw, nullptr, recv, nullptr, nullptr, nullptr, &ep));
  REQUIRE_OK(ia->ep_set_watermark_func(ep, 1, DAT_WATERMARK_INFINITE));
  DAT_EP_PARAM param{};
  param.pz_handle = pz;
  REQUIRE_OK(ia->ep_modify_func(ep, DAT_EP_FIELD_PZ_HANDLE, &param));
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE_OK(post_recv(ep, buffer, i));
  run();
  BOOST_CHECK(!empty(ia.async));
}

BOOST_AUTO_TEST_CASE(an_asynchronous_error) {
  const Side side = this->side();
  qp(side.ep).async_error();
  run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason,
                    static_cast<DAT_COUNT>(DAT_EP_TRANSFER_TO_ERROR));
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
