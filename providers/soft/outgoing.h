// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/iwarp/tx_batch.h"
#include "providers/soft/pin_set.h"

#include <cstdint>
#include <vector>

namespace udapl::soft {

// What both requests and answers need on their way out. Owned by a Queue.
struct Outgoing {
  PinSet pins;                       // of what the link works on
  std::vector<iwarp::IoSpan> spans;  // payload of the current message
};

// When a message of a queue may be posted, and what becomes of it.
enum class Posts : std::uint8_t {
  kRefused,
  kQueued,
  kFlushed  // completed at once
};

// What zero-length RDMA Writes and Reads say; it names no memory and is not looked at.
inline constexpr std::uint32_t kNoStag = 1;

}  // namespace udapl::soft
