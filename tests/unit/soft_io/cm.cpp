// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connection manager over loopback, on both sides: every outcome of a connect.
#include "providers/soft/cm/connector.h"

#include <ifaddrs.h>

#include <thread>

#include "providers/connecting/socket_address.h"
#include "tests/unit/soft_io/cm_fixture.h"

namespace udapl::soft::test {

namespace {

// An address of this machine that is no loopback address. Family 0: there is none.
transport::SocketAddress outer_address() {
  transport::SocketAddress found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* i = all; i != nullptr && found.family() == 0; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    const auto address = transport::SocketAddress::from(i->ifa_addr);
    if (!is_loopback(address)) found = address;
  }
  ::freeifaddrs(all);
  return found;
}

struct HasOuterAddress {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(outer_address().family() != 0);
    result.message() << "this machine has loopback addresses only";
    return result;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm, CmFixture)

// ---- accept, reject ----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(accept_with_private_data_of_every_size_class) {
  Desk desk;
  const auto listener = listen(desk);
  for (const std::size_t size : {0, 1, 2, 3, 64, 252, 507, 508}) {
    FakeQp active;
    FakeQp passive;
    const Bytes question = pattern(size, 1);
    const Bytes answer = pattern(508 - size, 2);
    start(active, request(listener->conn_qual(), question));
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST((question == incoming->private_data()));
    BOOST_REQUIRE(incoming->accept(passive, answer).ok());
    BOOST_TEST(eventually([&] { return active.outcomes() == 1; }));
    BOOST_TEST(active.attached());
    BOOST_TEST((active.data() == answer));
    BOOST_TEST(passive.attached());
    BOOST_TEST(passive.data().empty());
  }
}

BOOST_AUTO_TEST_CASE(private_data_beyond_a_frame_is_refused) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  FakeQp passive;
  BOOST_TEST(active.start(cm, request(listener->conn_qual(), pattern(509))).code() ==
             dat_error(DAT_INVALID_PARAMETER));
  BOOST_TEST(active.outcomes() == 0);
  start(active, request(listener->conn_qual()));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST((incoming->accept(passive, pattern(509)).type() == DAT_INVALID_PARAMETER));
  BOOST_TEST(passive.outcomes() == 0);
  BOOST_TEST(incoming->accept(passive, pattern(508)).ok());
  BOOST_TEST(eventually([&] { return active.attached(); }));
}

BOOST_AUTO_TEST_CASE(endpoints_agree_on_both_sides) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  FakeQp passive;
  start(active, request(listener->conn_qual()));
  const transport::Endpoints early = active.handshake_endpoints();
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  const transport::Endpoints theirs = incoming->endpoints();
  BOOST_REQUIRE(incoming->accept(passive, {}).ok());
  BOOST_REQUIRE(eventually([&] { return active.attached(); }));
  const transport::Endpoints mine = active.stream().endpoints();
  BOOST_TEST(to_text(mine.remote) == to_text(theirs.local));
  BOOST_TEST(to_text(mine.local) == to_text(theirs.remote));
  BOOST_TEST(mine.remote_port == listener->conn_qual());
  BOOST_TEST(mine.local_port == theirs.remote_port);
  BOOST_TEST(theirs.local_port == listener->conn_qual());
  BOOST_TEST(mine.local_port != 0U);
  // Known as soon as connect has been called.
  BOOST_TEST(early.local_port == mine.local_port);
  BOOST_TEST(to_text(early.remote) == to_text(mine.remote));
}

BOOST_AUTO_TEST_CASE(read_depths_and_crc_are_negotiated) {
  Settings tcp;
  tcp.path = Settings::Path::kTcp;
  TcpConnector over_tcp(*reactor, ipv4("127.0.0.1"), tcp);
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  FakeQp passive;
  active.config.ird = 5;
  active.config.ord = 9;
  passive.config.ird = 4;
  passive.config.ord = 16;
  BOOST_REQUIRE(active.start(over_tcp, request(listener->conn_qual())).ok());
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST(incoming->peer_rdma_read_in() == 5);
  BOOST_TEST(incoming->peer_rdma_read_out() == 9);
  BOOST_REQUIRE(incoming->accept(passive, {}).ok());
  BOOST_REQUIRE(eventually([&] { return active.attached(); }));
  BOOST_TEST(active.agreed().ord == 4);
  BOOST_TEST(active.agreed().ird == 5);
  BOOST_TEST(passive.agreed().ord == 5);
  BOOST_TEST(passive.agreed().ird == 4);
  BOOST_TEST(active.agreed().crc);
  BOOST_TEST(passive.agreed().crc);
  BOOST_TEST((active.agreed().rtr == iwarp::kRtrRead));
  BOOST_TEST((passive.agreed().rtr == iwarp::kRtrRead));
}

BOOST_AUTO_TEST_CASE(crc_is_off_only_when_both_sides_are_set_so) {
  Settings off;
  off.path = Settings::Path::kTcp;
  off.crc = false;
  TcpConnector quiet(*reactor, ipv4("127.0.0.1"), off);
  for (const bool active_asks : {false, true}) {
    Desk desk;
    auto listener = quiet.listen({0, nullptr}, desk);
    BOOST_REQUIRE(listener.ok());
    FakeQp active;
    FakeQp passive;
    const auto to = request((*listener)->conn_qual());
    BOOST_REQUIRE(active.start(active_asks ? cm : quiet, to).ok());
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_REQUIRE(incoming->accept(passive, {}).ok());
    BOOST_REQUIRE(eventually([&] { return active.attached(); }));
    BOOST_TEST(active.agreed().crc == active_asks);
    BOOST_TEST(passive.agreed().crc == active_asks);
  }
}

BOOST_AUTO_TEST_CASE(reject_carries_private_data) {
  Desk desk;
  const auto listener = listen(desk);
  for (const std::size_t size : {0, 1, 252, 508}) {
    FakeQp active;
    start(active, request(listener->conn_qual()));
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    incoming->reject(pattern(size));
    BOOST_TEST(outcome(active) == SetupFailure::kRejected);
    BOOST_TEST((active.data() == pattern(size)));
  }
}

BOOST_AUTO_TEST_CASE(undecided_request_is_refused_once) {
  Desk desk;
  desk.drop_all = true;
  const auto listener = listen(desk);
  FakeQp active;
  start(active, request(listener->conn_qual()));
  BOOST_TEST(outcome(active) == SetupFailure::kRefused);
  std::this_thread::sleep_for(20ms);
  BOOST_TEST(desk.count() == 1);  // no second attempt with another MPA revision
}

BOOST_AUTO_TEST_CASE(failed_accept_leaves_the_request) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  FakeQp busy;
  busy.refuse_stream = true;
  start(active, request(listener->conn_qual()));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST((incoming->accept(busy, {}).type() == DAT_INVALID_STATE));
  BOOST_TEST(active.outcomes() == 0);
  FakeQp passive;
  BOOST_TEST(incoming->accept(passive, {}).ok());
  BOOST_TEST(eventually([&] { return active.attached(); }));
  BOOST_TEST((incoming->accept(busy, {}).type() == DAT_INVALID_PARAMETER));  // already accepted
}

// ---- connects that do not succeed --------------------------------------------------------------

BOOST_AUTO_TEST_CASE(no_listener_is_refused) {
  DAT_CONN_QUAL free_port = 0;
  {
    Desk desk;
    free_port = listen(desk)->conn_qual();
  }
  FakeQp active;
  start(active, request(free_port));
  BOOST_TEST(outcome(active) == SetupFailure::kRefused);
}

BOOST_AUTO_TEST_CASE(addresses_that_never_can_be_reached) {
  for (const auto& remote : {ipv4("0.0.0.0"), ipv4("255.255.255.255"), ipv4("224.0.0.1"),
                             ipv6("2001:db8::1"), transport::SocketAddress{}}) {
    FakeQp active;
    auto to = request(7000);
    to.remote = remote;
    BOOST_TEST((active.start(cm, to).type() == DAT_INVALID_ADDRESS), to_text(remote));
    BOOST_TEST(active.outcomes() == 0);
  }
}

BOOST_AUTO_TEST_CASE(other_networks_are_unreachable_from_loopback) {
  FakeQp active;
  auto to = request(7000);
  to.remote = ipv4("192.0.2.1");
  start(active, to);  // the outcome is an event, although it is known at once
  BOOST_TEST(outcome(active) == SetupFailure::kUnreachable);
}

// As with verbs: not reported as a lack of resources, after which a program would retry.
BOOST_AUTO_TEST_CASE(peers_are_unreachable_when_our_address_has_gone) {
  TcpConnector gone(*reactor, ipv4("192.0.2.1"), {});
  FakeQp active;
  BOOST_REQUIRE(active.start(gone, request(7000)).ok());
  BOOST_TEST(outcome(active) == SetupFailure::kUnreachable);
}

BOOST_AUTO_TEST_CASE(mapped_address_is_an_ipv4_address) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  auto to = request(listener->conn_qual());
  to.remote = ipv6("::ffff:127.0.0.1");
  start(active, to);
  BOOST_TEST(desk.next() != nullptr);
}

BOOST_AUTO_TEST_CASE(time_runs_out_while_the_consumer_thinks) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  const auto begun = Clock::now();
  start(active, request(listener->conn_qual(), {}, 60'000));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST(outcome(active) == SetupFailure::kTimedOut);
  BOOST_TEST((Clock::now() - begun >= 60ms));
  // The passive side notices: the accepted connection ends at once.
  FakeQp passive;
  BOOST_REQUIRE(incoming->accept(passive, {}).ok());
  BOOST_TEST(eventually([&] {
    std::byte one;
    const IoResult got = passive.stream().receive(std::span(&one, 1));
    return got.kind == IoResult::kEnd || got.kind == IoResult::kBroken;
  }));
  BOOST_TEST(active.outcomes() == 1);
}

BOOST_AUTO_TEST_CASE(time_runs_out_before_tcp_is_connected) {
  RawSocket never_accepts;
  const auto place = never_accepts.listen(0);
  RawSocket first;  // fills the backlog, so that further SYNs are dropped
  BOOST_REQUIRE(first.connect(place));
  FakeQp active;
  start(active, request(place.port(), {}, 50'000));
  BOOST_TEST(outcome(active) == SetupFailure::kTimedOut);
}

// Regression: the connect ended after peer_timeout, as UNREACHABLE.
BOOST_AUTO_TEST_CASE(time_limit_may_exceed_that_for_silent_peers) {
  TcpConnector impatient(*reactor, ipv4("127.0.0.1"), {.peer_timeout = 100ms});
  RawSocket never_accepts;
  const auto place = never_accepts.listen(0);
  RawSocket first;
  BOOST_REQUIRE(first.connect(place));
  FakeQp active;
  BOOST_REQUIRE(active.start(impatient, request(place.port(), {}, 1'500'000)).ok());
  BOOST_TEST(outcome(active) == SetupFailure::kTimedOut);
}

// The peer's kernel accepts the connection and ignores the Request, as if its host had gone. TCP
// gives up long before the time limit, and the host returns.
BOOST_AUTO_TEST_CASE(host_that_was_given_up_is_tried_again) {
  TcpConnector impatient(*reactor, ipv4("127.0.0.1"), {.peer_timeout = 100ms});
  RawSocket server;
  const auto place = server.listen();
  lose_data(server.fd());
  FakeQp active;
  BOOST_REQUIRE(active.start(impatient, request(place.port())).ok());
  RawSocket lost = server.accept();  // its filter is a copy
  lose_nothing(server.fd());
  RawSocket peer = server.accept();
  BOOST_TEST(peer.receive(24).size() == 24U);
  BOOST_TEST(active.outcomes() == 0);
}

// A host that is away for 7.2 s. TCP's own pauses double: it would try again after 11 or 15 s,
// depending on the kernel.
BOOST_AUTO_TEST_CASE(host_that_returns_is_found_before_the_time_limit) {
  RawSocket away;
  const auto place = away.listen(0);
  RawSocket first;  // fills the backlog, so that further SYNs are dropped
  BOOST_REQUIRE(first.connect(place));
  FakeQp active;
  start(active, request(place.port(), {}, 10'500'000));
  std::this_thread::sleep_for(7200ms);
  away.accept().close();
  RawSocket peer = away.accept();
  BOOST_REQUIRE(peer.valid());
  BOOST_TEST(peer.receive(24).size() == 24U);
  BOOST_TEST(active.outcomes() == 0);
}

BOOST_AUTO_TEST_CASE(peer_that_never_answers_times_out) {
  RawSocket silent;
  const auto place = silent.listen();
  FakeQp active;
  start(active, request(place.port(), {}, 50'000));
  RawSocket peer = silent.accept();
  BOOST_TEST(outcome(active) == SetupFailure::kTimedOut);
  BOOST_TEST(peer.receive(1000).size() == 24U);  // the Request, then the end
}

// ---- destruction -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(handshake_may_go_at_any_time) {
  Desk desk;
  const auto listener = listen(desk);
  for (int round = 0; round < 60; ++round) {
    FakeQp active;
    FakeQp passive;
    start(active, request(listener->conn_qual(), {}, round % 3 == 0 ? 200 : 1'000'000));
    std::unique_ptr<transport::IncomingConnection> incoming;
    if (round % 2 == 0) incoming = desk.next(std::chrono::milliseconds(round % 4));
    if (incoming != nullptr) static_cast<void>(incoming->accept(passive, {}));
    std::this_thread::sleep_for(std::chrono::microseconds(round * 5));
    active.drop_handshake();
    const int outcomes = active.outcomes();
    BOOST_TEST(outcomes <= 1);
    std::this_thread::sleep_for(100us);
    BOOST_TEST(active.outcomes() == outcomes);  // no later call
  }
}

BOOST_AUTO_TEST_CASE(many_connections_at_a_time) {
  Desk desk;
  const auto listener = listen(desk);
  constexpr int kCount = 200;
  std::vector<std::unique_ptr<FakeQp>> active;
  std::vector<std::unique_ptr<FakeQp>> passive;
  for (int i = 0; i < kCount; ++i) {
    active.push_back(std::make_unique<FakeQp>());
    start(*active.back(), request(listener->conn_qual(), pattern(static_cast<std::size_t>(i))));
  }
  for (int i = 0; i < kCount; ++i) {
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    passive.push_back(std::make_unique<FakeQp>());
    const Bytes question(incoming->private_data().begin(), incoming->private_data().end());
    BOOST_REQUIRE(incoming->accept(*passive.back(), question).ok());
  }
  for (int i = 0; i < kCount; ++i) {
    BOOST_REQUIRE(eventually([&] { return active[static_cast<std::size_t>(i)]->attached(); }));
    BOOST_TEST(
        (active[static_cast<std::size_t>(i)]->data() == pattern(static_cast<std::size_t>(i))));
  }
}

BOOST_AUTO_TEST_CASE(ipv6_loopback_connects) {
  TcpConnector six(*reactor, ipv6("::1"), {});
  Desk desk;
  auto listener = six.listen({0, nullptr}, desk);
  if (!listener.ok()) {
    BOOST_TEST_MESSAGE("skipped: no IPv6 loopback on this machine");
    return;
  }
  FakeQp active;
  FakeQp passive;
  const Bytes question = pattern(10);
  auto to = request((*listener)->conn_qual(), question);
  to.remote = ipv6("::1");
  BOOST_REQUIRE(active.start(six, to).ok());
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST((question == incoming->private_data()));
  BOOST_TEST(incoming->endpoints().local.family() == AF_INET6);
  BOOST_REQUIRE(incoming->accept(passive, pattern(20)).ok());
  BOOST_REQUIRE(eventually([&] { return active.attached(); }));
  BOOST_TEST(to_text(active.stream().endpoints().remote) ==
             "[::1]:" + std::to_string((*listener)->conn_qual()));
  to.remote = ipv4("192.0.2.1");
  FakeQp wrong;
  BOOST_TEST((wrong.start(six, to).type() == DAT_INVALID_ADDRESS));
}

// "localhost" and the name of the machine, which on Debian stands for 127.0.1.1.
BOOST_AUTO_TEST_CASE(other_addresses_of_this_host_lead_to_its_listener) {
  Desk desk;
  const auto listener = listen(desk);
  for (const auto& remote :
       {ipv4("127.0.1.1"), ipv4("127.255.255.254"), ipv6("::1"), ipv6("::ffff:127.0.1.1")}) {
    BOOST_TEST_CONTEXT(to_text(remote)) {
      FakeQp active;
      FakeQp passive;
      auto to = request(listener->conn_qual());
      to.remote = remote;
      start(active, to);
      const auto incoming = desk.next();
      BOOST_REQUIRE(incoming != nullptr);
      BOOST_REQUIRE(incoming->accept(passive, {}).ok());
      BOOST_REQUIRE(eventually([&] { return active.attached(); }));
      BOOST_TEST(to_text(active.stream().endpoints().remote) ==
                 "127.0.0.1:" + std::to_string(listener->conn_qual()));
    }
  }
}

BOOST_AUTO_TEST_CASE(outer_addresses_lead_to_a_loopback_listener_and_back,
                     *boost::unit_test::precondition(HasOuterAddress())) {
  TcpConnector outer(*reactor, outer_address(), {});
  Desk desk;
  const auto listener = listen(desk);
  auto outside = outer.listen({0, nullptr}, desk);
  BOOST_REQUIRE(outside.ok());
  const auto meet = [&](TcpConnector& from, DAT_CONN_QUAL qual,
                        const transport::SocketAddress& remote) {
    FakeQp active;
    FakeQp passive;
    auto to = request(qual);
    to.remote = remote;
    BOOST_REQUIRE(active.start(from, to).ok());
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_REQUIRE(incoming->accept(passive, {}).ok());
    BOOST_TEST(eventually([&] { return active.attached(); }));
  };
  meet(cm, listener->conn_qual(), outer_address());
  meet(outer, (*outside)->conn_qual(), ipv4("127.0.0.1"));
  meet(outer, (*outside)->conn_qual(), ipv6("::1"));
}

BOOST_AUTO_TEST_CASE(a_listener_at_the_address_that_was_asked_for_comes_first) {
  TcpConnector other(*reactor, ipv4("127.0.1.1"), {});
  Desk here;
  Desk there;
  const auto listener = listen(here);
  const auto asked = other.listen({listener->conn_qual(), nullptr}, there);
  BOOST_REQUIRE(asked.ok());
  FakeQp active;
  FakeQp passive;
  auto to = request(listener->conn_qual());
  to.remote = ipv4("127.0.1.1");
  start(active, to);
  const auto incoming = there.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_REQUIRE(incoming->accept(passive, {}).ok());
  BOOST_TEST(eventually([&] { return active.attached(); }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
