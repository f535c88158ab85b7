// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "common/unshared_fd.h"
#include "providers/soft/shm/rings.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

// How two processes on one host come to share rings. A process that listens at a TCP address also
// has a box for offers: a unix socket with an abstract name, which is derived from that address and
// is visible in the same network namespace only. The connecting process sends rings and a random
// token to the box, and then the token on the TCP connection. Only the peer on the TCP connection
// can send the token, and only the peer can confirm there that it has found the rings. So neither
// side needs to know the identity of the process at the other end of the unix socket.
namespace udapl::soft::shm {

inline constexpr std::size_t kTokenSize = 24;  // eight constant bytes, then sixteen random ones
using Token = std::array<std::byte, kTokenSize>;

// Whether these bytes can be a token.
[[nodiscard]] bool looks_like_token(std::span<const std::byte> bytes) noexcept;

// An offer, as the connecting side keeps it.
struct Offer {
  Rings rings;
  Token token;
};
struct NoOffer {
  const char* why = "";
  bool later = false;  // the box is full at the moment: another attempt may succeed
};
// Leaves rings for the process that listens at `listener`. On failure, which is common (another
// host, another kind of peer), returns nullopt and sets `failure`. Does not block.
[[nodiscard]] std::optional<Offer> make_offer(const sockaddr& listener, NoOffer& failure) noexcept;

// A listener's box for offers. Not thread-safe.
class OfferBox {
 public:
  // Every box can hold kMin unclaimed offers. It may hold kMax more while all boxes of the process
  // together hold fewer than their share. A box that is full drops its oldest offer for a new one.
  static constexpr std::size_t kMin = 64;
  static constexpr std::size_t kMax = 1024;

  OfferBox() noexcept = default;
  OfferBox(const OfferBox&) = delete;
  OfferBox& operator=(const OfferBox&) = delete;
  ~OfferBox() { close(); }

  // On failure returns false and sets errno; the box then receives no offers. `share`: how many
  // unclaimed offers, at most kMax, the boxes of this process may hold together.
  bool open(const sockaddr& listener, std::size_t share = kMax) noexcept;
  void close() noexcept;
  // Removes and returns the rings that were left with this token; invalid if there are none. Does
  // not block.
  [[nodiscard]] Rings take(std::span<const std::byte> token) noexcept;
  // Whether unclaimed offers hold descriptors.
  [[nodiscard]] bool holds_any() const noexcept { return !pending_.empty(); }
  // Drops the offers of peers that have gone: no peer will claim them.
  void drop_gone() noexcept;

 private:
  struct PendingOffer {
    UnsharedFd socket;  // the memory stays in its queue, so an offer takes a single descriptor
    bool arrived = false;
    Token token;
  };
  // The maximum number of offers that one take() looks at: a hostile process may leave offers
  // without end.
  static constexpr int kMaxLooks = 2 * kMax;

  static bool look_at(PendingOffer& offer) noexcept;
  [[nodiscard]] bool has_room() const noexcept;
  bool accept_one(std::size_t& place) noexcept;
  void drop(std::size_t place) noexcept;
  [[nodiscard]] Rings take_from(std::size_t place) noexcept;

  static std::atomic<std::size_t> held_;  // by all boxes of the process

  UnsharedFd socket_;
  std::size_t share_ = 0;
  // The unclaimed offers, oldest first; the capacity is reserved. The elements are pointers,
  // because moving an UnsharedFd is slow.
  std::vector<std::unique_ptr<PendingOffer>> pending_;
};

}  // namespace udapl::soft::shm
