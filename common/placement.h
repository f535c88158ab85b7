// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/copy_bytes.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace udapl {

// The number of bytes at the end of a placement that are stored after all others.
inline constexpr std::size_t kPlacedLast = sizeof(std::uint64_t);

namespace detail {

template <class Word>
void store_word(std::byte* to, const std::byte* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof word);
  std::atomic_ref<Word>(*reinterpret_cast<Word*>(to)).store(word, std::memory_order_release);
}

}  // namespace detail

// Copies the bytes of a peer into registered memory so that a thread which polls the last bytes and
// then reads the others finds all of them. memcpy does not guarantee that: it stores in any order,
// often the beginning last. The last kPlacedLast bytes are stored after all others, in ascending
// order, in words as large as their alignment permits: so a thread never sees an aligned word of 2,
// 4 or 8 bytes at the end half written. Segments of a message that are placed one after the other
// become visible in that order.
inline void place_bytes(std::byte* to, std::span<const std::byte> from) noexcept {
  const std::size_t rest = from.size() - std::min(from.size(), kPlacedLast);
  if (rest != 0) copy_bytes(to, from.data(), rest);
  if (rest + kPlacedLast == from.size() &&
      reinterpret_cast<std::uintptr_t>(to + rest) % kPlacedLast == 0) [[likely]]
    return detail::store_word<std::uint64_t>(to + rest, from.data() + rest);
  for (std::size_t at = rest; at != from.size();) {
    const auto address = reinterpret_cast<std::uintptr_t>(to + at);
    const std::size_t alignment = std::size_t{1} << std::countr_zero(address | kPlacedLast);
    const std::size_t size = std::min(alignment, std::bit_floor(from.size() - at));
    switch (size) {
      case 8:
        detail::store_word<std::uint64_t>(to + at, from.data() + at);
        break;
      case 4:
        detail::store_word<std::uint32_t>(to + at, from.data() + at);
        break;
      case 2:
        detail::store_word<std::uint16_t>(to + at, from.data() + at);
        break;
      default:
        detail::store_word<std::uint8_t>(to + at, from.data() + at);
        break;
    }
    at += size;
  }
}

}  // namespace udapl
