// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "providers/soft/shm/rings.h"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

// How two processes of one host come to share rings. Whoever listens at a TCP address has a box
// for offers as well: a unix socket with an abstract name, which is made from that address and is
// seen in the same network namespace only. Who connects leaves rings there, with a token, and then
// names the token on the TCP connection itself. So nobody needs to know who is at the other end of
// the unix socket: only who has the TCP connection can name the token, and say that it was found.
namespace udapl::soft::shm {

inline constexpr std::size_t kTokenSize = 24;  // eight that are always the same, sixteen by chance
using Token = std::array<std::byte, kTokenSize>;

// Whether these bytes can be a token.
[[nodiscard]] bool looks_like_token(std::span<const std::byte> bytes) noexcept;

// Of the side that connects.
struct Offer {
  Rings rings;
  Token token;
};
// Leaves rings for who listens at `listener`. nullopt: `why` says what was in the way, which is
// nothing unusual (another host, another kind of peer). Does not block.
[[nodiscard]] std::optional<Offer> make_offer(const sockaddr& listener, const char*& why) noexcept;

// Of a listener. Not thread-safe.
class OfferBox {
 public:
  // False, and errno says why: it stays empty.
  bool open(const sockaddr& listener) noexcept;
  void close() noexcept;
  // The rings that were left with this token; invalid if there are none. Does not block.
  [[nodiscard]] Rings take(std::span<const std::byte> token) noexcept;

 private:
  struct Left {
    Fd socket;
    Fd memory;  // once the message has come
    Token token;
  };
  // What others may leave and never ask for; then the oldest goes.
  static constexpr std::size_t kMost = 64;
  static constexpr int kMostLooks = 512;

  static bool read(Left& left) noexcept;
  bool accept_one(std::size_t& place) noexcept;
  [[nodiscard]] Rings take_from(std::size_t place) noexcept;

  Fd socket_;
  std::vector<Left> left_;  // oldest first; room reserved
};

}  // namespace udapl::soft::shm
