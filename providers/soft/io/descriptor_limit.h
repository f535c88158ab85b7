// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace udapl::soft {

// The maximum number of descriptors of the process.
[[nodiscard]] inline std::size_t descriptor_limit() noexcept {
  constexpr std::size_t kUnknown = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUnknown;
  return static_cast<std::size_t>(limit.rlim_cur);
}

// The number of descriptors that requests from unknown peers must leave to the application and to
// established connections.
[[nodiscard]] inline std::size_t descriptor_reserve(std::size_t limit) noexcept {
  constexpr std::size_t kMax = 64;
  return std::min(limit / 16, kMax);
}

// A lower bound for the number of descriptors that can be opened without using the reserve: a new
// descriptor gets the lowest free number. `any`: an open descriptor.
[[nodiscard]] inline std::size_t unreserved_descriptors(int any) noexcept {
  const std::size_t limit = descriptor_limit();
  const std::size_t usable = limit - descriptor_reserve(limit);
  const int lowest = ::fcntl(any, F_DUPFD_CLOEXEC, 0);
  if (lowest < 0) return errno == EMFILE ? 0 : usable;
  ::close(lowest);
  return usable - std::min(static_cast<std::size_t>(lowest), usable);
}

}  // namespace udapl::soft
