// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl {

// The calls of transport::ConnectionSink, in the order in which they are made if several are
// pending. Those before kAsyncError are made at most once per connection.
enum class SinkCall : std::uint8_t {
  kEstablished,
  kRejected,
  kRefused,
  kUnreachable,
  kTimedOut,
  kAcceptFailed,
  kAsyncError,  // this and the next two concern the QP, not a connection
  kDisconnected,
  kBroken,
  kSoftWatermark,
  kSrqReleased,
  kNoCall  // only for state tables
};

}  // namespace udapl
