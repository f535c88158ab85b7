// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>

namespace udapl::soft {

// Tells whether a consumer waits for completions of a CQ, so that a thread should be woken for
// them. Owned by the Cq; read by streams over which the peer confirms requests.
//
// A stream that rests without asking the peer to wake it for a confirmation increments `sleepers`
// and then reads `wanted`. A consumer that begins to wait sets `wanted` and then reads `sleepers`.
// All four accesses are sequentially consistent, so at least one of the two sees the other's
// change.
struct CompletionDemand {
  std::atomic<bool> wanted{false};
  // The number of streams that rest so although a completion awaits a confirmation.
  std::atomic<std::uint32_t> sleepers{0};
};

}  // namespace udapl::soft
