// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "providers/soft/shm/byte_ring.h"

namespace udapl::soft::shm::test {

using Bytes = std::vector<std::byte>;

// A byte pattern in which misplaced bytes are noticed.
inline Bytes pattern(std::size_t count, std::size_t from = 0) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = std::byte((from + i) * 131 >> 3);
  return bytes;
}

// A ring in ordinary memory with canaries around its parts, and the two sides that use it.
template <std::size_t size, std::size_t porch_size = 0>
struct Ring {
  static constexpr std::byte kCanary{0xa5};
  static constexpr std::size_t kDataAt = 2 * kLineSize + porch_size;
  Ring() : memory(kDataAt + size + kLineSize, kCanary) {
    for (const std::span<std::byte> part : {porch(), data()}) std::ranges::fill(part, std::byte{0});
  }
  ~Ring() {
    for (const std::size_t at : {std::size_t{0}, kDataAt - kLineSize, kDataAt + size})
      for (std::size_t i = 0; i < kLineSize; ++i) BOOST_TEST((memory[at + i] == kCanary));
  }
  std::span<std::byte> porch() { return std::span(memory).subspan(kLineSize, porch_size); }
  std::span<std::byte> data() { return std::span(memory).subspan(kDataAt, size); }

  RingControl control{};
  Bytes memory;
  RingWriter writer{control, {porch(), data()}, size};
  RingReader reader{control, {porch(), data()}};
};

}  // namespace udapl::soft::shm::test
