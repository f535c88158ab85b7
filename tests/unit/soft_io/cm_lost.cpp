// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// MPA Requests that are lost: the peer ends a connection that it takes for a silent one, which says
// nothing about the MPA revisions that it knows.
#include <thread>

#include "tests/unit/soft_io/cm_fixture.h"

namespace udapl::soft::test {
namespace {

// Over TCP, as between hosts: a peer that takes offers of shared memory is known to be ours.
struct Fixture : CmFixture {
  Fixture()
      : CmFixture({.path = Settings::Path::kTcp, .half_open_limit = 1, .handshake_time = 300ms}) {}
};

// The socket of this process that listens at the port.
int listening_socket(std::uint16_t port) {
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    transport::SocketAddress address;
    socklen_t room = sizeof address.storage;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        ::getsockname(fd, address.get(), &room) == 0 && address.port() == port)
      return fd;
  }
  return -1;
}

iwarp::MpaFrame reply() { return iwarp::make_reply({}, good_request(), {}).reply; }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm_lost, Fixture)

// Regression: revision 1 was tried, with which a peer of our kind serves no RDMA Reads.
BOOST_AUTO_TEST_CASE(end_without_the_request_is_not_taken_for_revision_1) {
  for (const auto& pause : {0ms, 400ms}) {
    RawSocket server;
    const auto place = server.listen();
    lose_data(server.fd());
    FakeQp active;
    start(active, request(place.port()));
    {
      RawSocket lost = server.accept();
      lose_nothing(server.fd());
      std::this_thread::sleep_for(pause);
    }
    RawSocket peer = server.accept();
    BOOST_TEST(revision_of(peer.receive(24)) == 2);
    peer.send(encoded(reply()));
    BOOST_TEST(eventually([&] { return active.attached(); }));
    BOOST_TEST(active.agreed().revision == 2);
  }
}

BOOST_AUTO_TEST_CASE(late_end_is_not_taken_for_revision_1) {
  for (const bool by_reset : {false, true}) {
    RawSocket server;
    const auto place = server.listen();
    FakeQp active;
    start(active, request(place.port()));
    for (int i = 0; i < 2; ++i) {
      RawSocket peer = server.accept();
      BOOST_TEST(peer.receive(24).size() == 24U);
      std::this_thread::sleep_for(1100ms);
      if (by_reset) peer.reset_on_close();
    }
    RawSocket peer = server.accept();
    BOOST_TEST(revision_of(peer.receive(24)) == 2);
    peer.send(encoded(reply()));
    BOOST_TEST(eventually([&] { return active.attached(); }));
  }
}

// Our own listener, for as long as nothing with data reaches it.
BOOST_AUTO_TEST_CASE(peers_of_our_kind_never_end_with_revision_1) {
  Desk desk;
  const auto listener = listen(desk);
  const int socket = listening_socket(listener->address().port());
  lose_data(socket);
  FakeQp active;
  start(active, request(listener->conn_qual()));
  std::this_thread::sleep_for(2s);
  BOOST_TEST(active.outcomes() == 0);
  lose_nothing(socket);
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  FakeQp passive;
  BOOST_REQUIRE(incoming->accept(passive, {}).ok());
  BOOST_REQUIRE(eventually([&] { return active.outcomes() == 1; }));
  BOOST_TEST(active.attached());
  BOOST_TEST(active.agreed().revision == 2);
}

BOOST_AUTO_TEST_CASE(lost_requests_end_with_the_time_limit) {
  Desk desk;
  const auto listener = listen(desk);
  lose_data(listening_socket(listener->address().port()));
  FakeQp active;
  start(active, request(listener->conn_qual(), {}, 1'500'000));
  BOOST_TEST(outcome(active) == SetupFailure::kTimedOut);
  FakeQp patient;
  start(patient, request(listener->conn_qual(), {}, DAT_TIMEOUT_INFINITE));
  BOOST_TEST(outcome(patient) == SetupFailure::kRefused);
  BOOST_TEST(desk.count() == 0);
}

// A peer that gets its Request afterwards sees no end of the stream in its place.
BOOST_AUTO_TEST_CASE(connections_without_a_request_are_reset) {
  Desk desk;
  const auto listener = listen(desk);
  RawSocket slow;
  BOOST_REQUIRE(slow.connect(listener->address()));
  RawSocket other;  // needs the only place
  BOOST_REQUIRE(other.connect(listener->address()));
  const Bytes frame = encoded(good_request());
  other.send(std::span(frame).first(9));
  BOOST_TEST(slow.reset());
  BOOST_TEST(other.reset());  // later, as its time is up
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
