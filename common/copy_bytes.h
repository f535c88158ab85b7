// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace udapl {

// Whether AMD's Zen 3 executes `rep movsb` some twenty times slower if the destination lies this
// many bytes behind the source: 1 to 31, modulo the page size.
[[nodiscard]] constexpr bool is_slow_distance(std::uintptr_t distance) noexcept {
  constexpr std::uintptr_t kPage = 4096;
  constexpr std::uintptr_t kSlow = 32;
  return (distance - 1) % kPage < kSlow - 1;
}
[[nodiscard]] inline bool slow_distance(const void* to, const void* from) noexcept {
  return is_slow_distance(reinterpret_cast<std::uintptr_t>(to) -
                          reinterpret_cast<std::uintptr_t>(from));
}

// memcpy for payload, whose source and destination often differ by the length of a header, modulo
// the page size. glibc uses `rep movsb` for 2 KiB to 1 MiB; at a slow distance, this copies smaller
// pieces instead.
inline void copy_bytes(void* to, const void* from, std::size_t size) noexcept {
  constexpr std::size_t kSmall = 2048;  // memcpy does not use `rep movsb` up to here
  if (size > kSmall && slow_distance(to, from)) [[unlikely]] {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    while (size != 0) {
      const std::size_t piece = std::min(size, kSmall);
      std::memcpy(target, source, piece);
      target += piece;
      source += piece;
      size -= piece;
    }
    return;
  }
  std::memcpy(to, from, size);
}

}  // namespace udapl
