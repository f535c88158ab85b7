// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/iwarp/tx_batch.h"
#include "providers/soft/pin_set.h"

#include <cstdint>
#include <vector>

namespace udapl::soft {

// State shared by requests and answers while they are sent. Owned by a Queue.
struct Outgoing {
  PinSet pins;                       // of the memory that the link may read
  std::vector<iwarp::IoSpan> spans;  // payload of the current message
};

// What happens to a request that is posted to a queue.
enum class Posts : std::uint8_t {
  kRefused,
  kQueued,
  kFlushed  // completed at once
};

// What a queue may do in a given state of its connection.
struct QueueMode {
  Posts posts;
  bool transmits;
  bool answers;    // whether the peer's requests are answered
  bool connected;  // whether the hard watermark applies
};

// The STag in zero-length RDMA Writes and Reads; it names no memory and is ignored.
inline constexpr std::uint32_t kNoStag = 1;

}  // namespace udapl::soft
