// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "providers/verbs/trace_points.h"

#include <cerrno>

namespace udapl::verbs {

// The only reason of an InfiniBand rejection that is treated specially.
inline constexpr int kConsumerReject = 28;

// For traces; never null.
[[nodiscard]] const char* name_of(rdma_cm_event_type event) noexcept;
// Why a request was rejected. InfiniBand: the reason of the message; iWARP: an errno value.
[[nodiscard]] const char* reject_reason(int status, bool iwarp) noexcept;

namespace point {

// Like ended(), for calls that return -1 and set errno. Preserves errno.
inline int ended_cm(const char* function, int result) noexcept {
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    call(function, "", result == 0 ? 0 : errno);
  return result;
}

// An event of the connection manager. Call where it is handled.
void event(const rdma_cm_event& event) noexcept;

}  // namespace point

}  // namespace udapl::verbs
