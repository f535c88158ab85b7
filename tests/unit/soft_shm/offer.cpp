// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Offers: how two processes come to share rings, and what other processes can leave in the box.
#include "providers/soft/shm/offer.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace udapl::soft::shm::test {
namespace {

// An address that only these tests listen on.
union Place {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

Place ipv4(const char* host = "127.0.0.1") {
  Place place{};
  place.v4.sin_family = AF_INET;
  place.v4.sin_port = htons(static_cast<std::uint16_t>(::getpid()));
  BOOST_REQUIRE(::inet_pton(AF_INET, host, &place.v4.sin_addr) == 1);
  return place;
}

std::optional<Offer> offer(const Place& place, const char* expected = nullptr) {
  NoOffer failure;
  std::optional<Offer> made = make_offer(place.any, failure);
  if (expected == nullptr)
    BOOST_REQUIRE_MESSAGE(made.has_value(), failure.why);
  else
    BOOST_TEST(std::strcmp(failure.why, expected) == 0, failure.why);
  return made;
}

struct BoxName {
  // REQUIRES: there is a box.
  explicit BoxName(const Place& place) {
    const Offer own = *offer(place);
    BOOST_REQUIRE(::getpeername(own.rings.bell(), get(), &size) == 0);
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&name); }
  sockaddr_un name{};
  socklen_t size = sizeof name;
};

void pass(const Rings& from, const Rings& to, char letter) {
  RingWriter writer = from.writer();
  RingReader reader = to.reader();
  std::array bytes{std::byte(letter)};
  BOOST_TEST(writer.write(bytes).bytes == 1U);
  bytes = {};
  BOOST_TEST(reader.read(bytes).bytes == 1U);
  BOOST_TEST((bytes[0] == std::byte(letter)));
}

// Leaves something in a box as another process could: these bytes, and perhaps descriptors.
Fd leave(const Place& place, std::span<const std::byte> bytes, std::vector<int> descriptors) {
  BoxName name(place);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BOOST_REQUIRE(::connect(socket.get(), name.get(), name.size) == 0);
  if (bytes.empty()) return socket;
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t length = descriptors.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(header), descriptors.data(), length);
  }
  BOOST_REQUIRE(::sendmsg(socket.get(), &message, MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
  return socket;
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) != -1 ? 1 : 0;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(offers)

BOOST_AUTO_TEST_CASE(what_was_left_is_found_by_its_token_and_once) {
  OfferBox box;
  const Place place = ipv4();
  BOOST_REQUIRE(box.open(place.any));
  const Offer first = *offer(place);
  const Offer second = *offer(place);
  BOOST_TEST((first.token != second.token));
  const Rings late = box.take(second.token);
  BOOST_REQUIRE(late.valid());
  const Rings early = box.take(first.token);
  BOOST_REQUIRE(early.valid());
  pass(first.rings, early, 'a');
  pass(early, first.rings, 'b');
  pass(second.rings, late, 'c');
  BOOST_TEST(!box.take(first.token).valid());
}

BOOST_AUTO_TEST_CASE(ipv6_has_names_of_its_own) {
  Place place{};
  place.v6.sin6_family = AF_INET6;
  place.v6.sin6_addr = in6addr_loopback;
  place.v6.sin6_port = htons(static_cast<std::uint16_t>(::getpid()));
  OfferBox box;
  OfferBox other;
  BOOST_REQUIRE(box.open(place.any));
  BOOST_REQUIRE(other.open(ipv4().any));
  const Offer left = *offer(place);
  BOOST_TEST(!other.take(left.token).valid());
  BOOST_TEST(box.take(left.token).valid());
}

BOOST_AUTO_TEST_CASE(no_listener_or_not_on_this_host) {
  offer(ipv4(), "no listener there accepts offers of shared memory");
  // Any process can take the name for any address.
  OfferBox squatter;
  const Place elsewhere = ipv4("192.0.2.1");
  BOOST_REQUIRE(squatter.open(elsewhere.any));
  offer(elsewhere, "it is not on this host");
  OfferBox second;
  BOOST_TEST(!second.open(elsewhere.any));
  BOOST_TEST(errno == EADDRINUSE);
  squatter.close();
  BOOST_TEST(second.open(elsewhere.any));
}

// With no descriptor, or with one for the offer but none to find out where the listener is.
BOOST_AUTO_TEST_CASE(lack_of_descriptors_is_the_reason) {
  OfferBox box;
  const Place place = ipv4();
  BOOST_REQUIRE(box.open(place.any));
  rlimit limit{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int lowest = ::dup(0);
  BOOST_REQUIRE(lowest > 0);
  ::close(lowest);
  for (const int left : {0, 1}) {
    const rlimit low{static_cast<rlim_t>(lowest + left), limit.rlim_max};
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    NoOffer failure;
    const bool made = make_offer(place.any, failure).has_value();
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    BOOST_TEST(!made);
    BOOST_TEST(std::strcmp(failure.why, "no descriptor or memory is left for an offer") == 0,
               failure.why);
  }
}

BOOST_AUTO_TEST_CASE(offers_of_strangers_are_not_taken) {
  OfferBox box;
  const Place place = ipv4();
  BOOST_REQUIRE(box.open(place.any));
  const int before = open_descriptors();
  {
    const Offer good = *offer(place);
    Token token = good.token;
    token.back() ^= std::byte{1};
    const Fd plain(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    BOOST_REQUIRE(::ftruncate(plain.get(), Layout::kSize) == 0);
    std::vector<Fd> strangers;
    strangers.push_back(leave(place, {}, {}));                                    // no data
    strangers.push_back(leave(place, token, {}));                                 // no descriptor
    strangers.push_back(leave(place, std::span(token).first(5), {plain.get()}));  // partial token
    strangers.push_back(leave(place, token, {plain.get(), plain.get()}));         // too many
    BOOST_TEST(!box.take(token).valid());
    strangers.push_back(leave(place, token, {plain.get()}));  // unsealed: could be truncated
    BOOST_TEST(!box.take(token).valid());
    BOOST_TEST(!box.take({}).valid());
    BOOST_TEST(!box.take(std::span(good.token).first(8)).valid());
    BOOST_TEST(box.take(good.token).valid());
  }
  box.close();
  BOOST_TEST(open_descriptors() <= before);
}

// Killed after it has left an offer, and before its Request has arrived.
BOOST_AUTO_TEST_CASE(offers_of_peers_that_have_gone_can_be_dropped) {
  const Place place = ipv4();
  OfferBox box;
  BOOST_REQUIRE(box.open(place.any));
  std::optional<Offer> gone = offer(place);
  const std::optional<Offer> late = offer(place);
  const std::optional<Offer> claimed = offer(place);
  gone.reset();
  const int before = open_descriptors();
  {
    const Rings rings = box.take(claimed->token);
    BOOST_REQUIRE(rings.valid());
    BOOST_TEST(box.holds_any());
    BOOST_TEST(open_descriptors() == before + 3);
    box.drop_gone();
    BOOST_TEST(open_descriptors() == before + 2);
  }
  BOOST_TEST(box.take(late->token).valid());
  BOOST_TEST(!box.holds_any());
}

// The oldest offers that are not taken make room for new ones, and a single take() reads a bounded
// number of them.
BOOST_AUTO_TEST_CASE(the_box_is_bounded) {
  OfferBox box;
  const Place place = ipv4();
  constexpr int kOwnShare = 80;
  BOOST_REQUIRE(box.open(place.any, kOwnShare));
  const int before = open_descriptors();
  const Offer oldest = *offer(place);
  std::vector<Offer> many;
  Token unknown = oldest.token;
  unknown.back() ^= std::byte{1};
  for (int i = 0; i < 100; ++i) many.push_back(*offer(place));
  const int theirs = open_descriptors() - before;
  BOOST_TEST(!box.take(unknown).valid());
  BOOST_TEST(open_descriptors() - before - theirs == kOwnShare);
  BOOST_TEST(!box.take(oldest.token).valid());
  BOOST_TEST(box.take(many.back().token).valid());
}

// A full box leaves little room in the others, but some.
BOOST_AUTO_TEST_CASE(boxes_share_what_the_process_can_afford) {
  OfferBox full;
  OfferBox box;
  const Place crowded = ipv4();
  const Place place = ipv4("127.0.0.2");
  constexpr int kOwnShare = 80;
  BOOST_REQUIRE(full.open(crowded.any, kOwnShare));
  BOOST_REQUIRE(box.open(place.any, kOwnShare));
  std::vector<Offer> many;
  for (int i = 0; i < kOwnShare; ++i) many.push_back(*offer(crowded));
  Token unknown = many[0].token;
  unknown.back() ^= std::byte{1};
  BOOST_TEST(!full.take(unknown).valid());
  many.clear();
  for (int i = 0; i < kOwnShare; ++i) many.push_back(*offer(place));
  const int before = open_descriptors();
  BOOST_TEST(!box.take(unknown).valid());
  BOOST_TEST(open_descriptors() - before == static_cast<int>(OfferBox::kMin));
}

// Many processes may connect at once, and be accepted in any order.
BOOST_AUTO_TEST_CASE(burst_of_offers_is_kept) {
  OfferBox box;
  const Place place = ipv4();
  BOOST_REQUIRE(box.open(place.any));
  std::vector<Offer> many;
  for (int i = 0; i < 150; ++i) many.push_back(*offer(place));
  for (; !many.empty(); many.pop_back()) BOOST_TEST(box.take(many.back().token).valid());
}

BOOST_AUTO_TEST_CASE(offer_to_a_full_box_may_succeed_later) {
  OfferBox box;
  const Place place = ipv4();
  BOOST_REQUIRE(box.open(place.any));
  BoxName name(place);
  box.close();
  const Fd small(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BOOST_REQUIRE(::bind(small.get(), name.get(), name.size) == 0);
  BOOST_REQUIRE(::listen(small.get(), 0) == 0);
  const Offer first = *offer(place);
  NoOffer failure;
  BOOST_TEST(!make_offer(place.any, failure).has_value());
  BOOST_TEST(failure.later);
  const Fd accepted(::accept(small.get(), nullptr, nullptr));
  BOOST_TEST(make_offer(place.any, failure).has_value());
  BOOST_TEST(!failure.later);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::shm::test
