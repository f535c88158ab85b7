// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/sink_call.h"

#include <cstdint>

// What becomes of the connection of a QP: one pure function of state and event. Who sets it up and
// how (connector.h) is not known here; Qp does what a step says.
namespace udapl::verbs {

enum class QpState : std::uint8_t {
  kIdle,
  kConnecting,  // active side, until the peer has accepted and been told so
  kAccepting,   // passive side, until the peer says that it is ready
  kReady,
  kDraining,  // graceful disconnect: the requests go on
  kError
};
inline constexpr int kQpStates = 6;

enum class QpEvent : std::uint8_t {
  kConnect,      // the core's wish, as kAccept, kDrain, kAbort, kReset
  kAccept,       //
  kEstablished,  // the connection is there
  kRejected,     // SetupFailure, as the next two
  kRefused,      //
  kUnreachable,  //
  kPeerEnded,    // Loss::kEndedByPeer
  kPeerLost,     // any other Loss
  kTooLate,      // the time for the set-up is over
  kDrain,        // a graceful disconnect
  kDrained,      // all requests have completed
  kBroken,       // a request or the device failed, or a mark was exceeded
  kAbort,        // an abrupt disconnect, or the QP is about to be destroyed
  kReset
};
inline constexpr int kQpEvents = 14;

// What is done about the Connection.
enum class Ending : std::uint8_t {
  kNone,        // it goes on, or there is none
  kDrop,        // a set-up: nothing is said
  kDisconnect,  // the peer is told
  kAnswer       // the peer has told us
};

struct QpStep {
  bool allowed;   // false: nothing happens
  QpState next;   // kError: everything that is posted is flushed
  SinkCall call;  // that is made
  Ending ending;
};

[[nodiscard]] QpStep step(QpState state, QpEvent event) noexcept;
[[nodiscard]] const char* name_of(QpState state) noexcept;

}  // namespace udapl::verbs
