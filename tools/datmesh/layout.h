// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The layout of a node's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace datmesh {

inline constexpr std::uint32_t kSlots = 4;  // messages from one peer, at most
inline constexpr std::uint32_t kMessage = 64;

struct Layout {
  std::size_t size;
  std::size_t ranks;
  [[nodiscard]] std::size_t target(std::size_t peer) const { return peer * size; }
  [[nodiscard]] std::size_t source() const { return ranks * size; }
  [[nodiscard]] std::size_t slot(std::size_t peer, std::size_t which) const {
    return source() + size + (peer * kSlots + which) * kMessage;
  }
  [[nodiscard]] std::size_t message() const { return slot(ranks, 0); }
  [[nodiscard]] std::size_t all() const { return message() + kMessage; }
};

/** The cookie of a receive: peer and slot. For requests the slot is kSlots. */
inline constexpr std::uint64_t cookie_of(std::uint64_t peer, std::uint64_t slot) {
  return peer << 8 | slot;
}

}  // namespace datmesh
