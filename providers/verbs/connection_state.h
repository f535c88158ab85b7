// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/sink_call.h"

#include <cstdint>

// The state machine of a QP's connection: one pure function of state and event. It does not depend
// on how connections are set up (connector.h). Connection carries out each step. The software RNIC
// has one of the same form; an event with the same name means the same in both.
namespace udapl::verbs {

enum class ConnectionState : std::uint8_t {
  kIdle,
  kConnecting,  // active side, until the peer has accepted and that has been confirmed to it
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
  kPeerBroke,    // Loss::kEndedByPeer, of a connection that had broken here
  kPeerLost,     // any other Loss
  kTooLate,      // the set-up, or a graceful disconnect, has timed out
  kDrain,        // a graceful disconnect
  kDrained,      // all requests have completed
  kBroken,       // a request or the device failed, or a watermark was exceeded
  kAbort,        // an abrupt disconnect, or the QP is about to be destroyed
  kReset
};
inline constexpr int kConnectionEvents = static_cast<int>(ConnectionEvent::kReset) + 1;

// What happens to the CmConnection.
enum class ConnectionAction : std::uint8_t {
  kNone,        // it continues, or there is none
  kDrop,        // a set-up is dropped without a message
  kDisconnect,  // the peer is notified
  kAnswer       // the peer has ended it; the disconnect is its answer
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
