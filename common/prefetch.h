// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

// Fetches memory into the caches before it is used. Any address is allowed: a prefetch does not
// fault.
namespace udapl {

inline void prefetch_for_read(const void* line) noexcept { __builtin_prefetch(line); }
inline void prefetch_for_write(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// The lines of a whole object, or of its first `bytes` bytes.
inline void prefetch_bytes(const void* object, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  const auto* const first = static_cast<const char*>(object);
  for (std::size_t at = 0; at < bytes; at += kLine) prefetch_for_read(first + at);
  prefetch_for_read(first + bytes - 1);
}

}  // namespace udapl
