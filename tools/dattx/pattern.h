// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace dattx {

// The pattern of test data: bytes that depend on the seed and on the position, so that data of
// another message, displaced data and stale data are all detected. `block` is the position in units
// of 8 bytes.
inline std::uint64_t pattern_block(std::uint64_t seed, std::uint64_t block) {
  std::uint64_t x = (seed << 32) + block + 1;  // splitmix64
  x *= 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Calls use(offset, bytes of the pattern, number of bytes) for each block until it returns false.
template <typename Use>
bool for_each_block(std::size_t size, std::uint64_t seed, Use use) {
  for (std::size_t offset = 0; offset < size; offset += 8) {
    std::uint64_t block = pattern_block(seed, offset / 8);
    std::uint8_t bytes[8];
    for (std::uint8_t& byte : bytes) {  // the same bytes on every machine
      byte = static_cast<std::uint8_t>(block);
      block >>= 8;
    }
    if (!use(offset, bytes, std::min<std::size_t>(8, size - offset))) {
      return false;
    }
  }
  return true;
}

inline void fill_pattern(std::span<std::byte> data, std::uint64_t seed) {
  for_each_block(data.size(), seed, [&](std::size_t at, const std::uint8_t* bytes, std::size_t n) {
    std::memcpy(data.data() + at, bytes, n);
    return true;
  });
}

[[nodiscard]] inline bool has_pattern(std::span<const std::byte> data, std::uint64_t seed) {
  return for_each_block(data.size(), seed,
                        [&](std::size_t at, const std::uint8_t* bytes, std::size_t n) {
                          return std::memcmp(data.data() + at, bytes, n) == 0;
                        });
}

}  // namespace dattx
