// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl {

// What the core is told of a QP's connections (transport::ConnectionSink), in the order in which
// the calls are made if several wait. The first are told once a connection.
enum class SinkCall : std::uint8_t {
  kEstablished,
  kRejected,
  kRefused,
  kUnreachable,
  kTimedOut,
  kAcceptFailed,
  kAsyncError,  // of the QP, not of a connection; as the last two
  kDisconnected,
  kBroken,
  kSoftWatermark,
  kSrqReleased,
  // For state tables.
  kNoCall,
  kSetupOutcome  // the one of the first that whoever set up the connection has named
};

}  // namespace udapl
