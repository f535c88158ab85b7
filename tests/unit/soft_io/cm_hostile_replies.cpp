// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The active side of the connection manager against peers whose Reply is missing, late, truncated
// or wrong.
#include <mutex>
#include <thread>

#include "providers/soft/iwarp/mpa_negotiation.h"
#include "providers/soft/iwarp/wire.h"
#include "providers/soft/shm/offer.h"
#include "tests/unit/soft_io/cm_fixture.h"

namespace udapl::soft::test {
namespace {

// Reads all of it, so that a close is not a reset: those of revision 2 contain the depths.
Bytes receive_request(RawSocket& peer) {
  Bytes request = peer.receive(20);
  if (revision_of(request) == 2) {
    const Bytes depths = peer.receive(4);
    request.insert(request.end(), depths.begin(), depths.end());
  }
  return request;
}

// A server that sends the given answers, one per connection in sequence, and keeps the Requests.
class Server {
 public:
  explicit Server(std::vector<Bytes> answers)
      : place_(listener_.listen()), thread_([this, answers = std::move(answers)] {
          for (const Bytes& answer : answers) {
            RawSocket peer = listener_.accept();
            const std::lock_guard guard(lock_);
            requests_.push_back(receive_request(peer));
            if (answer.empty()) continue;  // closes without an answer
            peer.send(answer);
            last_ = std::move(peer);
          }
        }) {}
  ~Server() { join(); }
  [[nodiscard]] DAT_CONN_QUAL conn_qual() const { return place_.port(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  // To be called after join().
  [[nodiscard]] const std::vector<Bytes>& requests() const { return requests_; }
  RawSocket& last() { return last_; }

 private:
  RawSocket listener_;
  transport::SocketAddress place_;
  std::mutex lock_;
  std::vector<Bytes> requests_;
  RawSocket last_;
  std::thread thread_;
};

Bytes reply_to(const iwarp::MpaFrame& request, std::uint16_t ord = 0) {
  iwarp::MpaConfig config;
  config.ird = 8;
  config.ord = ord;
  return encoded(iwarp::make_reply(config, request, {}).reply);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm_hostile_replies, CmFixture)

BOOST_AUTO_TEST_CASE(hang_up_on_revision_2_leads_to_revision_1) {
  iwarp::MpaConfig old;
  old.revision = 1;
  const Bytes data = pattern(7);
  const Bytes answer = encoded(iwarp::make_reply({}, iwarp::make_request(old, {}), data).reply);
  Server server({{}, answer});
  FakeQp active;
  active.config.unnegotiated_ord = 3;
  start(active, request(server.conn_qual()));
  BOOST_REQUIRE(eventually([&] { return active.outcomes() == 1; }));
  server.join();
  BOOST_TEST(active.attached());
  BOOST_TEST((active.data() == data));
  BOOST_TEST(active.agreed().revision == 1);
  BOOST_TEST((active.agreed().rtr == iwarp::kRtrNone));
  BOOST_TEST(active.agreed().ord == 3);
  BOOST_TEST(revision_of(server.requests().at(0)) == 2);
  BOOST_TEST(revision_of(server.requests().at(1)) == 1);
}

BOOST_AUTO_TEST_CASE(peer_that_always_hangs_up_refuses) {
  {
    Server server({{}, {}});
    FakeQp active;
    start(active, request(server.conn_qual()));
    BOOST_TEST(outcome(active) == SetupFailure::kRefused);
    server.join();
    BOOST_TEST(server.requests().size() == 2U);
  }
  Settings settings;
  settings.revision1_fallback = false;
  TcpConnector modern(*reactor, ipv4("127.0.0.1"), settings);
  Server server(std::vector<Bytes>(1));
  FakeQp active;
  BOOST_REQUIRE(active.start(modern, request(server.conn_qual())).ok());
  BOOST_TEST(outcome(active) == SetupFailure::kRefused);
}

// The kernel resets the connections in the backlog of a listener that ends.
BOOST_AUTO_TEST_CASE(reset_is_not_taken_for_revision_1) {
  RawSocket listener;
  const auto place = listener.listen();
  FakeQp active;
  start(active, request(place.port()));
  {
    RawSocket peer = listener.accept();
    peer.reset_on_close();
  }
  RawSocket peer = listener.accept();
  BOOST_TEST(revision_of(peer.receive(24)) == 2);
  peer.send(reply_to(good_request()));
  BOOST_REQUIRE(eventually([&] { return active.outcomes() == 1; }));
  BOOST_TEST(active.attached());
  BOOST_TEST(active.agreed().revision == 2);
}

BOOST_AUTO_TEST_CASE(resets_lead_to_revision_1) {
  RawSocket listener;
  const auto place = listener.listen();
  FakeQp active;
  start(active, request(place.port()));
  int revision = 2;
  for (int attempts = 0; revision == 2 && attempts < 20; ++attempts) {
    RawSocket peer = listener.accept();
    peer.reset_on_close();
    revision = revision_of(peer.receive(20));
  }
  BOOST_TEST(revision == 1);
  BOOST_TEST(outcome(active) == SetupFailure::kRefused);
}

// Only our own listeners have a box for offers.
BOOST_AUTO_TEST_CASE(peer_that_takes_offers_never_gets_revision_1) {
  RawSocket listener;
  const auto place = listener.listen();
  shm::OfferBox box;
  BOOST_REQUIRE(box.open(*place.get()));
  FakeQp active;
  start(active, request(place.port()));
  for (const bool by_reset : {true, false}) {
    RawSocket peer = listener.accept();
    if (by_reset) peer.reset_on_close();
    BOOST_TEST(revision_of(peer.receive(48)) == 2);
  }
  RawSocket peer = listener.accept();
  BOOST_TEST(revision_of(peer.receive(48)) == 2);
  peer.send(reply_to(good_request()));
  BOOST_REQUIRE(eventually([&] { return active.outcomes() == 1; }));
  BOOST_TEST(active.attached());
}

BOOST_AUTO_TEST_CASE(truncated_reply_refuses_without_a_retry) {
  const Bytes reply = reply_to(good_request());
  for (const std::size_t size : {std::size_t{1}, std::size_t{17}, reply.size() - 1}) {
    RawSocket listener;
    const auto place = listener.listen();
    FakeQp active;
    start(active, request(place.port()));
    {
      RawSocket peer = listener.accept();
      peer.receive(24);
      peer.send(std::span(reply).first(size));
    }
    BOOST_TEST(outcome(active) == SetupFailure::kRefused);
  }
}

BOOST_AUTO_TEST_CASE(bad_replies_refuse) {
  const Bytes good = reply_to(good_request());
  const auto changed = [&](std::size_t at, unsigned value) {
    Bytes bytes = good;
    bytes.at(at) = static_cast<std::byte>(value);
    return bytes;
  };
  Bytes extra = good;
  extra.push_back(std::byte{0});
  for (const Bytes& answer : {changed(0, 'X'), changed(15, 'X'), changed(17, 3), changed(18, 9),
                              changed(19, 0), extra, encoded(good_request()), pattern(64)}) {
    Server server({answer});
    FakeQp active;
    start(active, request(server.conn_qual()));
    BOOST_TEST(outcome(active) == SetupFailure::kRefused);
  }
}

BOOST_AUTO_TEST_CASE(reply_in_single_bytes_is_collected) {
  RawSocket listener;
  const auto place = listener.listen();
  FakeQp active;
  start(active, request(place.port()));
  RawSocket peer = listener.accept();
  peer.receive(24);
  for (const std::byte byte : reply_to(good_request())) peer.send(std::span(&byte, 1));
  BOOST_TEST(eventually([&] { return active.outcomes() == 1; }));
  BOOST_TEST(active.attached());
}

// The peer wants more Reads than we serve: it is notified with a Terminate, LLP/MPA 06.
BOOST_AUTO_TEST_CASE(incompatible_reply_is_answered_with_a_terminate) {
  Server server({reply_to(good_request(), 200)});
  FakeQp active;
  active.config.ird = 1;
  start(active, request(server.conn_qual()));
  BOOST_TEST(outcome(active) == SetupFailure::kRefused);
  server.join();
  const Bytes fpdu = server.last().receive(28);
  BOOST_REQUIRE(fpdu.size() == 28U);
  BOOST_TEST(iwarp::load16(fpdu.data()) == 22);
  BOOST_TEST(iwarp::load16(&fpdu[2]) == 0x4147);
  BOOST_TEST(iwarp::load16(&fpdu[20]) == 0x2006);
  BOOST_TEST(server.last().closed());
}

BOOST_AUTO_TEST_CASE(foreign_reject_is_the_consumers) {
  // The kernel's siw rejects with S set but without the enhanced words.
  Bytes siw = reply_to(good_request());
  siw.resize(20);
  siw.at(16) |= std::byte{0x20};
  siw.at(19) = std::byte{0};
  Server server({siw});
  FakeQp active;
  start(active, request(server.conn_qual()));
  BOOST_TEST(outcome(active) == SetupFailure::kRejected);
  BOOST_TEST(active.data().empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
