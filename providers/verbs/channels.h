// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "common/tracing/cause.h"

#include <cerrno>

#include <fcntl.h>

// For the set-up of the event channels of verbs and rdma_cm.
namespace udapl::verbs {

// Returns false and sets errno on failure.
[[nodiscard]] inline bool make_nonblocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// INSUFFICIENT_RESOURCES, with `what` and errno as its cause.
[[nodiscard]] inline Status no_resources(const char* what) noexcept {
  const int error = errno;
  UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error, "%s", what);
  return failure(DAT_INSUFFICIENT_RESOURCES);
}

}  // namespace udapl::verbs
