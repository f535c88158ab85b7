// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>

namespace udapl::soft {

// Whether a consumer waits for completions of a CQ, so that they are worth waking a thread. Owned
// by the Cq; read by streams whose peers decide when requests complete.
//
// A stream that sleeps without a request to be woken for completions counts itself in `sleepers`
// and then reads `wanted`; a consumer that begins to wait sets `wanted` and then reads `sleepers`.
// All four accesses are sequentially consistent, so at least one of the two sees the other.
struct CompletionDemand {
  std::atomic<bool> wanted{false};
  // Streams that sleep although a completion is due, because none was wanted.
  std::atomic<std::uint32_t> sleepers{0};
};

}  // namespace udapl::soft
