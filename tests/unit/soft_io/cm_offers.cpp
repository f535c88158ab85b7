// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connection manager on one host when many processes connect at once: offers of shared memory
// to a listener that has no room for them at the moment.
#include "providers/soft/iwarp/wire.h"
#include "providers/soft/shm/offer.h"
#include "tests/unit/soft_io/cm_fixture.h"

#include <poll.h>
#include <sys/un.h>

#include <filesystem>
#include <iterator>
#include <optional>

namespace udapl::soft::test {
namespace {

// A box with room for a single offer, at the place of a listener.
struct SmallBox {
  explicit SmallBox(const transport::SocketAddress& place) {
    sockaddr_un name{};
    socklen_t size = sizeof name;
    {
      shm::OfferBox box;
      BOOST_REQUIRE(box.open(*place.get()));
      shm::NoOffer failure;
      const auto own = shm::make_offer(*place.get(), failure);
      BOOST_REQUIRE(own.has_value());
      auto* const at = reinterpret_cast<sockaddr*>(&name);
      BOOST_REQUIRE(::getpeername(own->rings.bell(), at, &size) == 0);
    }
    BOOST_REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), size) == 0);
    BOOST_REQUIRE(::listen(socket.get(), 0) == 0);
    shm::NoOffer failure;
    waiting = shm::make_offer(*place.get(), failure);
    BOOST_REQUIRE(waiting.has_value());
  }
  void empty() { BOOST_REQUIRE(Fd(::accept(socket.get(), nullptr, nullptr)).valid()); }
  Fd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::optional<shm::Offer> waiting;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm_offers, CmFixture)

// The wait is limited, hence more than one try.
BOOST_AUTO_TEST_CASE(full_box_is_waited_for) {
  bool offered = false;
  for (int tries = 0; !offered && tries < 3; ++tries) {
    RawSocket listener;
    const auto place = listener.listen();
    SmallBox box(place);
    FakeQp active;
    start(active, request(place.port()));
    RawSocket peer = listener.accept();
    pollfd input{peer.fd(), POLLIN, 0};
    if (::poll(&input, 1, 20) != 0) continue;  // a Request without an offer
    box.empty();
    const Bytes got = peer.receive(24);
    BOOST_REQUIRE(got.size() == 24U);
    // The private data: the depths, and the token if there is an offer.
    offered = iwarp::load16(&got[18]) == 4 + shm::kTokenSize;
  }
  BOOST_TEST(offered);
}

// path=auto does without, path=shm fails.
BOOST_AUTO_TEST_CASE(box_that_stays_full_is_given_up) {
  RawSocket listener;
  const auto place = listener.listen();
  SmallBox box(place);
  Settings settings;
  settings.path = Settings::Path::kShm;
  TcpConnector shm_only(*reactor, ipv4("127.0.0.1"), settings);
  FakeQp strict;
  BOOST_REQUIRE(strict.start(shm_only, request(place.port())).ok());
  BOOST_TEST(outcome(strict) == SetupFailure::kUnreachable);
  RawSocket lost = listener.accept();
  BOOST_TEST(lost.closed());
  FakeQp active;
  start(active, request(place.port()));
  RawSocket peer = listener.accept();
  const Bytes got = peer.receive(24);
  const auto decoded = iwarp::decode_mpa(got, iwarp::MpaKind::kRequest);
  BOOST_TEST((decoded.error == iwarp::MpaError::kNone));
  BOOST_TEST(!decoded.frame.rings);
}

// A peer that leaves while an offer is put off is noticed at once.
BOOST_AUTO_TEST_CASE(reset_before_the_offer_repeats_the_connect) {
  RawSocket listener;
  const auto place = listener.listen();
  SmallBox box(place);
  FakeQp active;
  start(active, request(place.port()));
  {
    RawSocket peer = listener.accept();
    peer.reset_on_close();
  }
  RawSocket peer = listener.accept();
  BOOST_TEST(revision_of(peer.receive(24)) == 2);
}

// Killed after it has left an offer, and before its Request has arrived. The listener finds the
// offer with the next request; nobody connects after that.
BOOST_AUTO_TEST_CASE(offer_of_a_peer_that_has_gone_is_not_kept) {
  Desk desk;
  const auto listener = listen(desk);
  shm::NoOffer failure;
  BOOST_REQUIRE(shm::make_offer(*listener->address().get(), failure).has_value());
  const std::ptrdiff_t before = open_descriptors();
  check_service(*listener, desk);
  BOOST_TEST(eventually([&] { return open_descriptors() <= before; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
