// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/stag.h"

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include <sys/random.h>
#include <unistd.h>

namespace udapl::soft {
namespace {

constexpr std::uint64_t kRounds = 8;

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() noexcept {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
};

// SipHash-2-4 of one 64-bit word.
std::uint64_t siphash(const std::array<std::uint64_t, 2>& key, std::uint64_t word) noexcept {
  constexpr std::uint64_t kLength = std::uint64_t{8} << 56;
  SipState s{key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU,
             key[0] ^ 0x6c7967656e657261U, key[1] ^ 0x7465646279746573U};
  for (const std::uint64_t block : {word, kLength}) {
    s.v3 ^= block;
    s.round();
    s.round();
    s.v0 ^= block;
  }
  s.v2 ^= 0xFF;
  for (int i = 0; i < 4; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

std::array<std::uint64_t, 2> random_key() noexcept {
  std::array<std::uint64_t, 2> key{};
  auto* const bytes = reinterpret_cast<std::byte*>(key.data());
  for (std::size_t got = 0; got < sizeof key;) {
    const ssize_t n = ::getrandom(bytes + got, sizeof key - got, 0);
    if (n > 0) {
      got += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      // getrandom is not available (a seccomp filter): the key is still unique, but not secret.
      key[0] =
          static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
      key[1] =
          reinterpret_cast<std::uintptr_t>(bytes) ^ (static_cast<std::uint64_t>(::getpid()) << 32);
      break;
    }
  }
  return key;
}

}  // namespace

StagGenerator::StagGenerator() noexcept : key_(random_key()) {}

std::uint32_t StagGenerator::permute(std::uint32_t value) const noexcept {
  auto left = static_cast<std::uint16_t>(value >> 16);
  auto right = static_cast<std::uint16_t>(value);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const auto mixed = static_cast<std::uint16_t>(left ^ siphash(key_, round << 16 | right));
    left = right;
    right = mixed;
  }
  return static_cast<std::uint32_t>(left) << 16 | right;
}

std::uint32_t StagGenerator::inverse(std::uint32_t stag) const noexcept {
  auto left = static_cast<std::uint16_t>(stag >> 16);
  auto right = static_cast<std::uint16_t>(stag);
  for (std::uint64_t round = kRounds; round-- > 0;) {
    const auto mixed = static_cast<std::uint16_t>(right ^ siphash(key_, round << 16 | left));
    right = left;
    left = mixed;
  }
  return static_cast<std::uint32_t>(left) << 16 | right;
}

std::uint32_t StagGenerator::next() noexcept {
  std::uint32_t stag = 0;
  while (stag == 0) stag = permute(counter_++);
  return stag;
}

}  // namespace udapl::soft
