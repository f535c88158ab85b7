// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "connecting.h"
#include "harness.h"
#include "peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

// Connections: the addresses and port qualifiers of both ends.
namespace conformance {

namespace {

// 0 if the address has none.
std::uint32_t scope_of(const sockaddr* address) {
  return address->sa_family == AF_INET6
             ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_scope_id
             : 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(connection)

BOOST_AUTO_TEST_CASE(conn_unreachable, *covers("ofa_2_3_11_unreachable")) {
  Pair pair;
  sockaddr_in nowhere{};
  nowhere.sin_family = AF_INET;
  ::inet_pton(AF_INET, "192.0.2.254", &nowhere.sin_addr);  // TEST-NET-1: no host has it
  const DAT_RETURN rc =
      connect_to(pair, reinterpret_cast<sockaddr*>(&nowhere), pair.conn_qual, 500 * kMillisecond);
  if (rc != DAT_SUCCESS) {
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(rc), static_cast<DAT_RETURN>(DAT_INVALID_ADDRESS));
    return;
  }
  const auto event = next_event(pair.active.connect_evd);
  BOOST_REQUIRE(event);
  BOOST_CHECK(event->event_number == DAT_CONNECTION_EVENT_UNREACHABLE ||
              event->event_number == DAT_CONNECTION_EVENT_TIMED_OUT);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_DISCONNECTED);
}

BOOST_AUTO_TEST_CASE(conn_bad_address) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  for (const char* const text : {"224.0.0.1", "255.255.255.255"}) {
    Pair pair;
    ::inet_pton(AF_INET, text, &address.sin_addr);
    const DAT_RETURN rc = connect_to(pair, reinterpret_cast<sockaddr*>(&address), pair.conn_qual);
    if (rc == DAT_SUCCESS) {
      const auto event = next_event(pair.active.connect_evd);
      BOOST_REQUIRE(event);
      BOOST_CHECK(event->event_number != DAT_CONNECTION_EVENT_ESTABLISHED);
    } else {
      BOOST_CHECK_EQUAL(DAT_GET_TYPE(rc), static_cast<DAT_RETURN>(DAT_INVALID_ADDRESS));
    }
  }
  Pair pair;
  address.sin_family = 250;
  CHECK_TYPE_OR(connect_to(pair, reinterpret_cast<sockaddr*>(&address), pair.conn_qual),
                DAT_INVALID_ADDRESS, DAT_INVALID_PARAMETER);
  CHECK_TYPE(connect_to(pair, nullptr, pair.conn_qual), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(ep_query_remote_connected) {
  Pair pair;
  pair.connect();
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_query(pair.active.ep, DAT_EP_FIELD_ALL, &param));
  BOOST_REQUIRE(param.remote_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(param.remote_ia_address_ptr->sa_family, pair.ia.attr.ia_address_ptr->sa_family);
  BOOST_CHECK_EQUAL(param.remote_port_qual, pair.conn_qual);
  DAT_EP_PARAM passive{};
  REQUIRE_OK(dat_ep_query(pair.passive.ep, DAT_EP_FIELD_ALL, &passive));
  BOOST_CHECK_EQUAL(passive.remote_port_qual, param.local_port_qual);
  BOOST_REQUIRE(passive.remote_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(scope_of(passive.remote_ia_address_ptr), scope_of(pair.ia.attr.ia_address_ptr));
}

// Programs that support IPv4 only fill in the host address and nothing else.
BOOST_AUTO_TEST_CASE(conn_address_without_family, *covers("conn_bad_address")) {
  Pair pair;
  if (skip_unless(pair.ia.attr.ia_address_ptr->sa_family == AF_INET, "the IA has no IPv4 address"))
    return;
  sockaddr_in address{};
  address.sin_addr = reinterpret_cast<const sockaddr_in*>(pair.ia.attr.ia_address_ptr)->sin_addr;
  REQUIRE_OK(connect_to(pair, reinterpret_cast<sockaddr*>(&address), pair.conn_qual));
  REQUIRE_OK(dat_cr_accept(take_cr(pair.cr_evd), pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

// As getaddrinfo(AI_V4MAPPED) returns it to a program for both families.
BOOST_AUTO_TEST_CASE(conn_mapped_address, *covers("conn_basic_events")) {
  Pair pair;
  if (skip_unless(pair.ia.attr.ia_address_ptr->sa_family == AF_INET, "the IA has no IPv4 address"))
    return;
  const in_addr& host = reinterpret_cast<const sockaddr_in*>(pair.ia.attr.ia_address_ptr)->sin_addr;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr.s6_addr[10] = address.sin6_addr.s6_addr[11] = 0xFF;
  std::memcpy(&address.sin6_addr.s6_addr[12], &host, sizeof host);
  REQUIRE_OK(connect_to(pair, reinterpret_cast<sockaddr*>(&address), pair.conn_qual));
  REQUIRE_OK(dat_cr_accept(take_cr(pair.cr_evd), pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

// "On SUCCESS the EP is bound to a local port qualifier, visible to the peer."
BOOST_AUTO_TEST_CASE(ep_query_local_port_connecting, *covers("ep_query_remote_connected")) {
  Pair pair;
  REQUIRE_OK(connect_to(pair, pair.conn_qual));
  const DAT_PORT_QUAL local = query_ep(pair.active.ep).local_port_qual;
  BOOST_CHECK_NE(local, 0U);
  const DAT_CR_HANDLE cr = take_cr(pair.cr_evd);
  BOOST_CHECK_EQUAL(query_cr(cr).remote_port_qual, local);
  BOOST_CHECK_EQUAL(query_ep(pair.active.ep).local_port_qual, local);
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(query_ep(pair.active.ep).local_port_qual, local);
  BOOST_CHECK_EQUAL(query_ep(pair.passive.ep).remote_port_qual, local);
  BOOST_CHECK_EQUAL(query_ep(pair.passive.ep).local_port_qual, pair.conn_qual);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
