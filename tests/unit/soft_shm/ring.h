// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include "providers/soft/shm/byte_ring.h"

namespace udapl::soft::shm::test {

using Bytes = std::vector<std::byte>;

// Differs at every place of any ring.
inline Bytes pattern(std::size_t count, std::size_t from = 0) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = std::byte((from + i) * 131 >> 3);
  return bytes;
}

// A ring in ordinary memory, with a canary at both ends, and its two sides.
template <std::size_t size>
struct Ring {
  static constexpr std::byte kCanary{0xa5};
  Ring() : memory(size + 2 * kLineSize, kCanary) {
    for (std::byte& place : data()) place = std::byte{0};
  }
  ~Ring() {
    for (std::size_t i = 0; i < kLineSize; ++i) {
      BOOST_TEST((memory[i] == kCanary));
      BOOST_TEST((memory[kLineSize + size + i] == kCanary));
    }
  }
  std::span<std::byte> data() { return std::span(memory).subspan(kLineSize, size); }

  RingControl control{};
  Bytes memory;
  RingWriter writer{control, data(), size};
  RingReader reader{control, data()};
};

}  // namespace udapl::soft::shm::test
