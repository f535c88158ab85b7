// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The passive side of the connection manager against peers that are foreign, broken or malicious.
// Most cases end with a check that a good peer is still served.
#include <sys/resource.h>

#include <random>
#include <thread>

#include "common/tracing/trace.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "providers/soft/iwarp/wire.h"
#include "tests/unit/soft_io/cm_fixture.h"

namespace udapl::soft::test {
namespace {

Settings impatient() {
  Settings settings;
  settings.half_open_limit = 4;
  settings.handshake_time = 150ms;
  return settings;
}

// The connection manager closes nothing because of its time limit.
struct PatientFixture : CmFixture {
  PatientFixture() : CmFixture({.handshake_time = 1h}) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm_hostile, CmFixture)

BOOST_AUTO_TEST_CASE(request_in_single_bytes_is_collected) {
  Desk desk;
  const auto listener = listen(desk);
  RawSocket peer;
  BOOST_REQUIRE(peer.connect(listener->address()));
  const Bytes data = pattern(5);
  for (const std::byte byte : encoded(good_request(data))) peer.send(std::span(&byte, 1));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST((data == incoming->private_data()));
  FakeQp passive;
  BOOST_TEST(incoming->accept(passive, {}).ok());
  const Bytes reply = peer.receive(24);
  const iwarp::MpaDecode decode = iwarp::decode_mpa(reply, iwarp::MpaKind::kReply);
  BOOST_TEST((decode.error == iwarp::MpaError::kNone));
  BOOST_TEST(decode.frame.peer_to_peer);
  BOOST_TEST(decode.frame.rtr == iwarp::kRtrRead);
}

BOOST_AUTO_TEST_CASE(request_cut_at_any_byte_is_forgotten) {
  Desk desk;
  const auto listener = listen(desk);
  const Bytes request = encoded(good_request(pattern(9)));
  for (std::size_t size = 0; size < request.size(); ++size) {
    for (const bool reset : {false, true}) {
      RawSocket peer;
      BOOST_REQUIRE(peer.connect(listener->address()));
      peer.send(std::span(request).first(size));
      if (reset) peer.reset_on_close();
    }
  }
  check_service(*listener, desk);
  BOOST_TEST(desk.count() == 1);
}

BOOST_FIXTURE_TEST_CASE(garbage_is_dropped_at_its_first_wrong_byte, PatientFixture) {
  Desk desk;
  const auto listener = listen(desk);
  const Bytes good = encoded(good_request());
  const auto changed = [&](std::size_t at, unsigned value) {
    Bytes bytes = good;
    bytes.at(at) = static_cast<std::byte>(value);
    return bytes;
  };
  iwarp::MpaFrame reply = good_request();
  reply.kind = iwarp::MpaKind::kReply;
  Bytes extra = good;
  extra.push_back(std::byte{0});
  std::vector<Bytes> bad = {
      changed(17, 0),   changed(17, 3),
      changed(17, 255),                    // revision
      changed(18, 2),   changed(18, 255),  // length 513 and more
      changed(19, 3),                      // no room for the enhanced words
      encoded(reply),   extra,
      pattern(600),  // wrong kind, trailing bytes, noise
      Bytes(600),
  };
  for (std::size_t i = 0; i < 16; ++i) bad.push_back(changed(i, 0x80));  // the key
  for (const Bytes& bytes : bad) {
    RawSocket peer;
    BOOST_REQUIRE(peer.connect(listener->address()));
    peer.send(bytes);
    BOOST_TEST(peer.closed());
  }
  BOOST_TEST(desk.count() == 0);
  check_service(*listener, desk);
}

BOOST_FIXTURE_TEST_CASE(wrong_key_is_seen_before_the_rest_arrives, PatientFixture) {
  Desk desk;
  const auto listener = listen(desk);
  RawSocket peer;
  BOOST_REQUIRE(peer.connect(listener->address()));
  peer.send(pattern(1));
  BOOST_TEST(peer.closed());
}

BOOST_AUTO_TEST_CASE(random_bytes_do_no_harm) {
  Desk desk;
  const auto listener = listen(desk);
  std::mt19937 random(20240611);
  const Bytes good = encoded(good_request(pattern(30)));
  for (int round = 0; round < 300; ++round) {
    Bytes bytes = good;
    for (int flips = 0; flips < 3; ++flips)
      bytes.at(random() % bytes.size()) = static_cast<std::byte>(random());
    bytes.resize(random() % (bytes.size() + 1));
    RawSocket peer;
    BOOST_REQUIRE(peer.connect(listener->address()));
    peer.send(bytes);  // some are still valid requests
  }
  check_service(*listener, desk);
}

BOOST_AUTO_TEST_CASE(revision_1_peer_gets_a_revision_1_answer) {
  Desk desk;
  const auto listener = listen(desk);
  iwarp::MpaConfig old;
  old.revision = 1;
  const Bytes data = pattern(512);
  RawSocket peer;
  BOOST_REQUIRE(peer.connect(listener->address()));
  peer.send(encoded(iwarp::make_request(old, data)));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST((data == incoming->private_data()));
  BOOST_TEST(incoming->peer_rdma_read_in() == -1);
  BOOST_TEST(incoming->peer_rdma_read_out() == -1);
  FakeQp passive;
  BOOST_TEST(incoming->accept(passive, data).ok());
  const Bytes reply = peer.receive(20 + 512);
  BOOST_REQUIRE(reply.size() == 532U);
  BOOST_TEST(revision_of(reply) == 1);
  BOOST_TEST((Bytes(reply.begin() + 20, reply.end()) == data));
  BOOST_TEST((passive.agreed().rtr == iwarp::kRtrNone));
}

BOOST_AUTO_TEST_CASE(consumer_reject_and_refusal_differ_on_the_wire) {
  Desk desk;
  const auto listener = listen(desk);
  for (const bool decided : {true, false}) {
    RawSocket peer;
    BOOST_REQUIRE(peer.connect(listener->address()));
    peer.send(encoded(good_request()));
    auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    if (decided) incoming->reject({});
    incoming.reset();
    const Bytes bytes = peer.receive(24);
    const iwarp::MpaDecode decode = iwarp::decode_mpa(bytes, iwarp::MpaKind::kReply);
    BOOST_REQUIRE((decode.error == iwarp::MpaError::kNone));
    BOOST_TEST(decode.frame.reject);  // the bit that a foreign peer checks
    BOOST_TEST(is_refusal(decode.frame) == !decided);
    BOOST_TEST(peer.closed());
  }
}

// ---- floods ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(half_open_connections_are_limited) {
  TcpConnector strict(*reactor, ipv4("127.0.0.1"), impatient());
  Desk desk;
  auto listener = strict.listen({0, nullptr}, desk);
  BOOST_REQUIRE(listener.ok());
  std::vector<RawSocket> silent(4);
  const auto begun = Clock::now();
  for (auto& peer : silent) BOOST_REQUIRE(peer.connect((*listener)->address()));
  FakeQp active;
  start(active, request((*listener)->conn_qual()));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST((Clock::now() - begun >= impatient().handshake_time));  // all slots were occupied
  for (auto& peer : silent) BOOST_TEST(peer.closed());
  FakeQp passive;
  BOOST_TEST(incoming->accept(passive, {}).ok());
  BOOST_TEST(eventually([&] { return active.attached(); }));
}

// All slots are occupied for an hour, but the network that occupies most of them loses one.
BOOST_AUTO_TEST_CASE(network_with_most_silent_loses_the_oldest) {
  Settings settings;
  settings.half_open_limit = 4;
  settings.handshake_time = 1h;
  TcpConnector fair(*reactor, ipv4("127.0.0.1"), settings);
  Desk desk;
  auto listener = fair.listen({0, nullptr}, desk);
  BOOST_REQUIRE(listener.ok());
  RawSocket modest;
  modest.connect_from(ipv4("127.0.1.3"), (*listener)->address());
  std::vector<RawSocket> greedy(3);
  constexpr const char* kNeighbours[] = {"127.0.0.2", "127.0.0.77", "127.0.0.250"};
  for (std::size_t i = 0; i < greedy.size(); ++i)
    greedy[i].connect_from(ipv4(kNeighbours[i]), (*listener)->address());
  check_service(**listener, desk);
  BOOST_TEST(greedy[0].closed());
  for (RawSocket* const kept : {&modest, &greedy[1], &greedy[2]}) {
    kept->send(encoded(good_request()));
    BOOST_TEST((desk.next() != nullptr));
  }
}

// If all networks occupy the same number of slots, the oldest connection of all is closed.
BOOST_AUTO_TEST_CASE(equal_networks_lose_the_oldest_of_all) {
  Settings settings;
  settings.half_open_limit = 4;
  settings.handshake_time = 1h;
  TcpConnector fair(*reactor, ipv4("127.0.0.1"), settings);
  Desk desk;
  auto listener = fair.listen({0, nullptr}, desk);
  BOOST_REQUIRE(listener.ok());
  std::vector<RawSocket> silent(4);
  for (std::size_t i = 0; i < silent.size(); ++i)
    silent[i].connect_from(ipv4(i % 2 == 0 ? "127.0.2.2" : "127.0.3.3"), (*listener)->address());
  check_service(**listener, desk);
  BOOST_TEST(silent[0].closed());
  for (std::size_t i = 1; i < silent.size(); ++i) {
    silent[i].send(encoded(good_request()));
    BOOST_TEST((desk.next() != nullptr));
  }
}

// The peer disconnects before the consumer has decided. The accept succeeds, as if the peer had
// disconnected just afterwards.
BOOST_AUTO_TEST_CASE(request_of_a_lost_peer_frees_its_descriptor) {
  Desk desk;
  const auto listener = listen(desk);
  const auto lowest_free = [] {
    const int fd = ::dup(0);
    ::close(fd);
    return fd;
  };
  const int before = lowest_free();
  RawSocket peer;
  BOOST_REQUIRE(peer.connect(listener->address()));
  peer.send(encoded(good_request()));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  peer = RawSocket();
  BOOST_TEST(eventually([&] { return lowest_free() == before; }));
  FakeQp passive;
  BOOST_TEST(incoming->accept(passive, {}).ok());
  BOOST_TEST(passive.attached());
}

BOOST_AUTO_TEST_CASE(silent_flood_ends_with_the_listener) {
  Desk desk;
  auto listener = listen(desk);
  std::vector<RawSocket> silent(300);
  for (auto& peer : silent) BOOST_REQUIRE(peer.connect(listener->address()));
  listener.reset();
  for (auto& peer : silent) BOOST_TEST(peer.closed());
}

BOOST_AUTO_TEST_CASE(listener_survives_a_lack_of_descriptors) {
  Desk desk;
  const auto listener = listen(desk);
  std::vector<RawSocket> peers(3);
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(::dup(0));  // the lowest free descriptor: none is left
  ::close(static_cast<int>(none.rlim_cur));
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int level = trace::level();
  trace::set_level(0);
  for (auto& peer : peers) BOOST_CHECK(peer.connect(listener->address()));
  for (auto& peer : peers) peer.send(encoded(good_request()));
  rusage start_usage{};
  rusage end_usage{};
  ::getrusage(RUSAGE_SELF, &start_usage);
  std::this_thread::sleep_for(250ms);
  ::getrusage(RUSAGE_SELF, &end_usage);
  BOOST_TEST(desk.count() == 0);
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  trace::set_level(level);
  const auto spent = [](const rusage& usage) {
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  BOOST_TEST(spent(end_usage) - spent(start_usage) < 120'000);
  for (std::size_t i = 0; i < peers.size(); ++i) BOOST_TEST((desk.next() != nullptr));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
