// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "common/unshared_fd.h"
#include "providers/soft/shm/rings.h"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

// How two processes on one host come to share rings. A process that listens at a TCP address also
// has a box for offers: a unix socket with an abstract name, which is derived from that address and
// is visible in the same network namespace only. The connecting process leaves rings there, with a
// token, and then sends the token on the TCP connection itself. So neither side needs to know the
// identity of the process at the other end of the unix socket: only the peer on the TCP connection
// can send the token, and confirm that it was found.
namespace udapl::soft::shm {

inline constexpr std::size_t kTokenSize = 24;  // eight constant bytes, then sixteen random ones
using Token = std::array<std::byte, kTokenSize>;

// Whether these bytes can be a token.
[[nodiscard]] bool looks_like_token(std::span<const std::byte> bytes) noexcept;

// What the connecting side keeps.
struct Offer {
  Rings rings;
  Token token;
};
// Leaves rings for the process that listens at `listener`. On failure, which is common (another
// host, another kind of peer), returns nullopt and sets `why`. Does not block.
[[nodiscard]] std::optional<Offer> make_offer(const sockaddr& listener, const char*& why) noexcept;

// A listener's box for offers. Not thread-safe.
class OfferBox {
 public:
  // On failure returns false and sets errno: the box stays empty.
  bool open(const sockaddr& listener) noexcept;
  void close() noexcept;
  // Removes and returns the rings that were left with this token; invalid if there are none. Does
  // not block.
  [[nodiscard]] Rings take(std::span<const std::byte> token) noexcept;

 private:
  struct PendingOffer {
    UnsharedFd socket;
    Fd memory;  // once the message has arrived
    Token token;
  };
  // The maximum number of unclaimed offers; beyond it the oldest is dropped.
  static constexpr std::size_t kMost = 64;
  static constexpr int kMostLooks = 512;

  static bool read(PendingOffer& offer) noexcept;
  bool accept_one(std::size_t& place) noexcept;
  [[nodiscard]] Rings take_from(std::size_t place) noexcept;

  UnsharedFd socket_;
  std::vector<PendingOffer> pending_;  // oldest first; capacity is reserved
};

}  // namespace udapl::soft::shm
