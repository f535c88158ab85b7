// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/shm/offer.h"
#include "tests/unit/soft/memory_link.h"
#include "tests/unit/soft/path.h"
#include "tests/unit/soft/side.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <memory>
#include <optional>
#include <utility>

// Connects QPs without a connection manager, over each kind of link.
namespace udapl::soft::test {

// Two connected TCP sockets on the loopback interface.
inline std::pair<Fd, Fd> tcp_pair() {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BOOST_REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  BOOST_REQUIRE(::listen(listener.get(), 1) == 0);
  socklen_t size = sizeof address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  Fd active(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BOOST_REQUIRE(::connect(active.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  Fd passive(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  BOOST_REQUIRE(passive.valid());
  return {std::move(active), std::move(passive)};
}

inline Negotiated negotiated(bool initiator, iwarp::RtrSet rtr = iwarp::kRtrRead,
                             std::uint16_t ird = 4, std::uint16_t ord = 4, bool crc = true) {
  Negotiated n;
  n.initiator = initiator;
  n.agreed.crc = crc;
  n.agreed.rtr = rtr;
  n.agreed.ird = ird;
  n.agreed.ord = ord;
  return n;
}

inline constexpr std::array<std::byte, 20> kReply{};  // a stand-in for the MPA Reply

inline void attach_responder(Side& side, Fd socket, Negotiated n) {
  n.reply = kReply;
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*side.reactor, std::move(socket), transport::Endpoints{});
  BOOST_REQUIRE(side.qp->attach(stream, n).ok());
  BOOST_REQUIRE(stream == nullptr);
}

inline void read_reply(int fd) {
  std::array<std::byte, kReply.size()> reply;
  BOOST_REQUIRE(::recv(fd, reply.data(), reply.size(), MSG_WAITALL) ==
                static_cast<ssize_t>(reply.size()));
}

inline void attach_initiator(Side& side, Fd socket, const Negotiated& n) {
  read_reply(socket.get());
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*side.reactor, std::move(socket), transport::Endpoints{});
  BOOST_REQUIRE(side.qp->attach(stream, n).ok());
}

// Rings for the two ends of a TCP connection: first the connecting end's, then the accepting end's.
inline std::pair<shm::Rings, shm::Rings> ring_pair(int accepted) {
  sockaddr_storage place{};
  socklen_t size = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  BOOST_REQUIRE(::getsockname(accepted, address, &size) == 0);
  shm::OfferBox box;
  BOOST_REQUIRE(box.open(*address));
  shm::NoOffer failure;
  std::optional<shm::Offer> offer = shm::make_offer(*address, failure);
  BOOST_REQUIRE_MESSAGE(offer.has_value(), failure.why);
  shm::Rings taken = box.take(offer->token);
  BOOST_REQUIRE(taken.valid());
  return {std::move(offer->rings), std::move(taken)};
}

inline void attach_rings(Side& side, Fd socket, shm::Rings rings, Negotiated n) {
  if (n.initiator)
    read_reply(socket.get());
  else
    n.reply = kReply;
  n.agreed.crc = false;
  auto tcp = std::make_unique<TcpStream>(*side.reactor, std::move(socket), transport::Endpoints{});
  std::unique_ptr<ByteStream> stream =
      std::make_unique<RingStream>(std::move(tcp), std::move(rings), is_direct());
  BOOST_REQUIRE(side.qp->attach(stream, n).ok());
}

inline void attach_memory(Side& side, std::shared_ptr<Wire> wire, int end, Negotiated n,
                          bool refers = false) {
  if (!n.initiator) n.reply = kReply;
  std::unique_ptr<Link> link =
      std::make_unique<MemoryLink>(*side.reactor, std::move(wire), end, refers);
  BOOST_REQUIRE(side.qp->attach(link, n).ok());
}

}  // namespace udapl::soft::test
