// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/cm/connector.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "tests/unit/soft_io/fake_qp.h"
#include "tests/unit/soft_io/raw_socket.h"

#include <ostream>

namespace udapl::soft {

inline std::ostream& operator<<(std::ostream& out, SetupFailure failure) {
  constexpr const char* kNames[] = {"rejected", "refused", "unreachable", "timed out"};
  return out << kNames[static_cast<int>(failure)];
}

}  // namespace udapl::soft

namespace udapl::soft::test {

inline bool operator==(const Bytes& a, transport::PrivateData b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// A connection manager at 127.0.0.1.
struct CmFixture {
  explicit CmFixture(const Settings& settings = {}) : cm(*reactor, ipv4("127.0.0.1"), settings) {}

  std::unique_ptr<transport::Listener> listen(Desk& desk, DAT_CONN_QUAL qual = 0) {
    auto listener = cm.listen({qual, nullptr}, desk);
    BOOST_REQUIRE(listener.ok());
    return *std::move(listener);
  }
  static transport::ConnectRequest request(DAT_CONN_QUAL qual, transport::PrivateData data = {},
                                           DAT_TIMEOUT timeout_us = 20'000'000) {
    return {ipv4("127.0.0.1"), qual, timeout_us, data};
  }
  void start(FakeQp& qp, const transport::ConnectRequest& to) {
    BOOST_REQUIRE(qp.start(cm, to).ok());
  }
  // Waits for the failure of a connect and returns its reason.
  SetupFailure outcome(FakeQp& qp) {
    BOOST_REQUIRE(eventually([&] { return qp.outcomes() == 1; }));
    BOOST_REQUIRE(qp.setup_failure().has_value());
    return *qp.setup_failure();
  }
  // Checks that a well-behaved peer is still served. Drops the requests of others.
  void check_service(transport::Listener& listener, Desk& desk) {
    const Bytes mark = pattern(7);
    FakeQp active;
    FakeQp passive;
    start(active, request(listener.conn_qual(), mark));
    auto incoming = desk.next();
    while (incoming != nullptr && mark != incoming->private_data()) incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST(incoming->accept(passive, {}).ok());
    BOOST_TEST(eventually([&] { return active.attached(); }));
  }

  std::unique_ptr<Reactor> reactor = make_reactor();
  TcpConnector cm;
};

// The request that our own active side sends: A=1 with a Read RTR.
inline iwarp::MpaFrame good_request(std::span<const std::byte> data = {}) {
  iwarp::MpaConfig config;
  config.ird = config.ord = 8;
  return iwarp::make_request(config, data);
}

inline std::uint8_t revision_of(const Bytes& frame) {
  return static_cast<std::uint8_t>(frame.at(17));
}

}  // namespace udapl::soft::test
