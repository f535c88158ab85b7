// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/sink_call.h"

#include <cstdint>

// The state machine of a QP's connection: one pure function of state and event. It does not depend
// on how connections are set up (connector.h). Connection carries out each step. The state machine
// of the software RNIC has the same form, and events of the same name mean the same.
namespace udapl::verbs {

enum class ConnectionState : std::uint8_t {
  kIdle,
  kConnecting,  // active side, until the peer has accepted and has got our confirmation
  kAccepting,   // passive side, until the peer confirms that it is ready
  kReady,
  kDraining,  // graceful disconnect: outstanding requests continue
  kError
};
inline constexpr int kConnectionStates = static_cast<int>(ConnectionState::kError) + 1;

enum class ConnectionEvent : std::uint8_t {
  kConnect,      // requested by the core, like kAccept, kDrain, kAbort, kReset
  kAccept,       //
  kEstablished,  // the connection is established
  kRejected,     // a SetupFailure, like the next two
  kRefused,      //
  kUnreachable,  //
  kPeerEnded,    // Loss::kEndedByPeer
  kPeerBroke,    // Loss::kEndedByPeer, after the connection had broken on this side
  kPeerLost,     // any other Loss
  kTooLate,      // the set-up, or a graceful disconnect, has timed out
  kDrain,        // a graceful disconnect
  kDrained,      // all requests have completed
  kBroken,       // a request or the device failed, or a watermark was exceeded
  kAbort,        // an abrupt disconnect, or the QP is about to be destroyed
  kReset
};
inline constexpr int kConnectionEvents = static_cast<int>(ConnectionEvent::kReset) + 1;

// What Connection does with the CmConnection.
enum class ConnectionAction : std::uint8_t {
  kNone,        // keeps it, if there is one
  kDrop,        // drops a set-up without a message
  kDisconnect,  // disconnects: the peer is notified
  kAnswer       // disconnects as an answer to the peer, which has ended the connection
};

struct ConnectionStep {
  bool allowed;          // false: nothing happens
  ConnectionState next;  // kError: all posted work is flushed
  ConnectionAction action;
  SinkCall call;  // the sink call to make
};

[[nodiscard]] ConnectionStep connection_step(ConnectionState state, ConnectionEvent event) noexcept;
[[nodiscard]] const char* name_of(ConnectionState state) noexcept;

}  // namespace udapl::verbs
