// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Which addresses count as the same source.
#include "providers/soft/network.h"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>

#include <cstring>

namespace udapl::soft {
namespace {

transport::SocketAddress ipv6(const char* text, std::uint32_t scope = 0) {
  transport::SocketAddress address;
  address.storage = {};
  address.storage.sin6_family = AF_INET6;
  address.storage.sin6_scope_id = scope;
  BOOST_REQUIRE_EQUAL(::inet_pton(AF_INET6, text, &address.storage.sin6_addr), 1);
  return address;
}

transport::SocketAddress ipv4(const char* text) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  BOOST_REQUIRE_EQUAL(::inet_pton(AF_INET, text, &in.sin_addr), 1);
  transport::SocketAddress address;
  address.storage = {};
  std::memcpy(&address.storage, &in, sizeof in);
  return address;
}

bool same_source(const transport::SocketAddress& a, const transport::SocketAddress& b) {
  return network_of(a) == network_of(b);
}

BOOST_AUTO_TEST_SUITE(networks)

// A host can use all addresses of its IPv6 network.
BOOST_AUTO_TEST_CASE(addresses_of_one_network_are_one_source) {
  BOOST_TEST(same_source(ipv6("2001:db8::1"), ipv6("2001:db8::ffff:2")));
  BOOST_TEST(!same_source(ipv6("2001:db8::1"), ipv6("2001:db8:0:1::1")));
  BOOST_TEST(same_source(ipv4("192.0.2.1"), ipv4("192.0.2.2")));
  BOOST_TEST(!same_source(ipv4("192.0.2.1"), ipv4("192.0.3.1")));
  BOOST_TEST((network_of(ipv4("192.0.2.1"), 32) != network_of(ipv4("192.0.2.2"), 32)));
}

// Addresses whose first half does not identify a network.
BOOST_AUTO_TEST_CASE(networks_that_are_none) {
  BOOST_TEST(!same_source(ipv6("fe80::1", 3), ipv6("fe80::2", 3)));
  BOOST_TEST(!same_source(ipv6("::ffff:192.0.2.1"), ipv6("::ffff:192.0.2.2")));
  BOOST_TEST(!same_source(ipv6("::1"), ipv6("::ffff:192.0.2.2")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft
