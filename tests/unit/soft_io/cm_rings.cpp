// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connection manager on one host: which path a connection takes, and that the path is invisible
// to the consumer.
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/shm/offer.h"
#include "tests/unit/soft_io/cm_fixture.h"
#include "tests/unit/soft_io/errors_of.h"

namespace udapl::soft::test {
namespace {

Settings with(Settings::Path path) {
  Settings settings;
  settings.path = path;
  return settings;
}

bool over_rings(FakeQp& qp) { return dynamic_cast<RingStream*>(&qp.stream()) != nullptr; }

// Connection managers of the other kinds, beside the fixture's, which is "auto".
struct Paths : CmFixture {
  // Connects, and returns whether both sides have rings.
  bool connected_by_rings(TcpConnector& from, TcpConnector& to, const Bytes& question,
                          const Bytes& answer) {
    Desk desk;
    auto listener = to.listen({0, nullptr}, desk);
    BOOST_REQUIRE(listener.ok());
    FakeQp active;
    FakeQp passive;
    BOOST_REQUIRE(active.start(from, request((*listener)->conn_qual(), question)).ok());
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST((question == incoming->private_data()));
    BOOST_REQUIRE(incoming->accept(passive, answer).ok());
    BOOST_REQUIRE(eventually([&] { return active.attached(); }));
    BOOST_TEST((active.data() == answer));
    BOOST_TEST(over_rings(active) == over_rings(passive));
    BOOST_TEST(active.agreed().crc != over_rings(active));
    BOOST_TEST(passive.agreed().crc != over_rings(active));
    BOOST_TEST((active.agreed().rtr == iwarp::kRtrRead));
    return over_rings(active);
  }

  TcpConnector tcp{*reactor, ipv4("127.0.0.1"), with(Settings::Path::kTcp)};
  TcpConnector shm{*reactor, ipv4("127.0.0.1"), with(Settings::Path::kShm)};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm_rings, Paths)

BOOST_AUTO_TEST_CASE(the_path_is_what_both_sides_can) {
  const Bytes question = pattern(100, 1);
  const Bytes answer = pattern(200, 2);
  BOOST_TEST(connected_by_rings(cm, cm, question, answer));
  BOOST_TEST(connected_by_rings(shm, cm, question, answer));
  BOOST_TEST(connected_by_rings(cm, shm, question, answer));
  BOOST_TEST(!connected_by_rings(tcp, cm, question, answer));
  BOOST_TEST(!connected_by_rings(cm, tcp, question, answer));
}

BOOST_AUTO_TEST_CASE(private_data_of_every_size_is_the_consumers) {
  const std::size_t most = 508 - shm::kTokenSize;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, most - 1, most})
    BOOST_TEST(connected_by_rings(cm, cm, pattern(size, 1), pattern(508 - size, 2)));
  BOOST_TEST(!connected_by_rings(cm, cm, pattern(most + 1, 1), {}));
  BOOST_TEST(!connected_by_rings(cm, cm, pattern(508, 1), {}));
}

BOOST_AUTO_TEST_CASE(path_shm_is_that_or_nothing) {
  Desk desk;
  const auto listener = listen(desk);
  auto strict = shm.listen({0, nullptr}, desk);
  auto plain = tcp.listen({0, nullptr}, desk);
  BOOST_REQUIRE(strict.ok() && plain.ok());
  // The event does not tell why, so a message does.
  const std::string told = errors_of([&] {
    FakeQp active;
    BOOST_REQUIRE(active.start(shm, request((*plain)->conn_qual())).ok());
    BOOST_TEST(outcome(active) == SetupFailure::kUnreachable);
    FakeQp crowded;
    BOOST_REQUIRE(crowded.start(shm, request(listener->conn_qual(), pattern(508))).ok());
    BOOST_TEST(outcome(crowded) == SetupFailure::kUnreachable);
    RawSocket peer;
    BOOST_REQUIRE(peer.connect((*strict)->address()));
    peer.send(encoded(good_request()));
    BOOST_TEST(peer.closed());
  });
  for (const char* const reason :
       {"path=shm, and no listener there accepts offers of shared memory",
        "path=shm, and the private data leaves no room", "path=shm, and there is no shared memory"})
    BOOST_TEST(told.find(reason) != std::string::npos, reason << " not in " << told);
  BOOST_TEST(desk.count() == 0);
}

// The bit for rings is a reserved one of the protocol. Data that has the form of a token is removed
// from the private data even if the token is unknown.
BOOST_AUTO_TEST_CASE(unknown_token_is_cut_from_private_data) {
  for (TcpConnector* const at : {&cm, &tcp}) {
    Desk desk;
    auto listener = at->listen({0, nullptr}, desk);
    BOOST_REQUIRE(listener.ok());
    Bytes data = pattern(10);
    const Bytes own = data;
    const char mark[] = "udaplshm0123456789abcdef";
    for (const char letter : std::span(mark).first(shm::kTokenSize))
      data.push_back(static_cast<std::byte>(letter));
    iwarp::MpaFrame frame = good_request(data);
    frame.rings = true;
    RawSocket peer;
    BOOST_REQUIRE(peer.connect((*listener)->address()));
    peer.send(encoded(frame));
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST((own == incoming->private_data()));
    FakeQp passive;
    BOOST_REQUIRE(incoming->accept(passive, {}).ok());
    const Bytes reply = peer.receive(24);
    BOOST_TEST(!iwarp::decode_mpa(reply, iwarp::MpaKind::kReply).frame.rings);
    BOOST_TEST(!over_rings(passive));
  }
}

BOOST_AUTO_TEST_CASE(reserved_bit_of_a_strange_peer_is_ignored) {
  Desk desk;
  const auto listener = listen(desk);
  for (const std::size_t size : {0, 10, 40}) {
    iwarp::MpaFrame frame = good_request();
    const Bytes data = pattern(size);
    frame.private_data = data;
    frame.rings = true;
    RawSocket peer;
    BOOST_REQUIRE(peer.connect(listener->address()));
    peer.send(encoded(frame));
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST((data == incoming->private_data()));
  }
}

BOOST_AUTO_TEST_CASE(second_qp_gets_the_rings_when_the_first_refuses) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  FakeQp unwilling;
  FakeQp willing;
  unwilling.refuse_stream = true;
  start(active, request(listener->conn_qual()));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST(!incoming->accept(unwilling, {}).ok());
  BOOST_REQUIRE(incoming->accept(willing, {}).ok());
  BOOST_REQUIRE(eventually([&] { return active.attached(); }));
  BOOST_TEST(over_rings(willing));
  const Bytes sent = pattern(1000);
  const iwarp::IoSpan span{sent.data(), sent.size()};
  BOOST_TEST(active.stream().send(std::span(&span, 1), 0).bytes == sent.size());
  Bytes got(2000);
  BOOST_TEST(willing.stream().receive(got).bytes == sent.size());
}

BOOST_AUTO_TEST_CASE(rejection_arrives) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  start(active, request(listener->conn_qual(), pattern(3)));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  incoming->reject(pattern(7));
  BOOST_TEST(outcome(active) == SetupFailure::kRejected);
  BOOST_TEST((active.data() == pattern(7)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
