// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What an EP records of its connection.
#include "dapl/endpoint/ep_connection.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>

namespace udapl::test {
namespace {

using dapl::ConnectKind;
using dapl::EpConnection;

constexpr DAT_CONN_QUAL kQualifier = 0x123456789;  // no port

transport::SocketAddress address_with(std::uint16_t port) {
  transport::SocketAddress address;
  address.storage.sin6_family = AF_INET;
  address.set_port(port);
  return address;
}

// As a transport reports it: the qualifiers are ports.
transport::Endpoints established() { return {address_with(7), address_with(8), 7, 8}; }

BOOST_AUTO_TEST_SUITE(ep_connection)

BOOST_AUTO_TEST_CASE(the_active_side_keeps_the_qualifier_it_connected_to) {
  EpConnection connection;
  connection.begin_active({address_with(0), kQualifier, ConnectKind::kByQualifier}, {});
  BOOST_CHECK_EQUAL(connection.endpoints().remote_port, kQualifier);
  connection.complete_endpoints(established());
  BOOST_CHECK_EQUAL(connection.endpoints().remote_port, kQualifier);
  BOOST_CHECK_EQUAL(connection.endpoints().local_port, 7U);
  BOOST_CHECK_EQUAL(connection.endpoints().remote.port(), 8);
  BOOST_REQUIRE(connection.target());
  BOOST_CHECK_EQUAL(connection.target()->conn_qual, kQualifier);
}

BOOST_AUTO_TEST_CASE(the_passive_side_keeps_the_qualifier_it_listened_on) {
  EpConnection connection;
  connection.begin_passive({address_with(1), address_with(2), kQualifier, 2}, 3);
  connection.complete_endpoints(established());
  BOOST_CHECK_EQUAL(connection.endpoints().local_port, kQualifier);
  BOOST_CHECK_EQUAL(connection.endpoints().remote_port, 8U);
  BOOST_CHECK(!connection.target());
  BOOST_CHECK_EQUAL(connection.max_rdma_read_out().value_or(0), 3);
}

BOOST_AUTO_TEST_CASE(unknown_endpoints_change_nothing) {
  EpConnection connection;
  connection.begin_active({address_with(5), 5, ConnectKind::kByAddress}, {});
  connection.complete_endpoints({});
  BOOST_CHECK_EQUAL(connection.endpoints().remote.port(), 5);
}

BOOST_AUTO_TEST_CASE(private_data_is_cut_to_the_room_for_it) {
  constexpr std::array<std::byte, 600> kData{};
  EpConnection connection;
  connection.store_peer_data(kData);  // without room: the peer's data is in its request
  BOOST_CHECK(connection.peer_data().empty());
  connection.reserve_peer_data(512);
  connection.store_peer_data(kData);
  BOOST_CHECK_GE(connection.peer_data().size(), 512U);
  BOOST_CHECK_LT(connection.peer_data().size(), 600U);
}

BOOST_AUTO_TEST_CASE(a_reset_leaves_nothing) {
  constexpr std::array<std::byte, 4> kData{};
  EpConnection connection;
  connection.reserve_peer_data(kData.size());
  connection.begin_active({address_with(5), 5, ConnectKind::kByQualifier}, {});
  connection.store_peer_data(kData);
  BOOST_CHECK_EQUAL(connection.clear().size(), 1U);
  BOOST_CHECK_EQUAL(connection.endpoints().remote.family(), 0);
  BOOST_CHECK_EQUAL(connection.endpoints().remote_port, 0U);
  BOOST_CHECK(connection.peer_data().empty());
  BOOST_CHECK(!connection.target());
  BOOST_CHECK(!connection.max_rdma_read_out());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
