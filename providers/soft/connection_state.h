// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/sink_call.h"

#include <cstdint>

// The state machine of a connection as a table: no object, no lock, no I/O. The verbs provider has
// a table of the same form; events with the same name mean the same in both.
// tests/unit/soft/connection_state.cpp enumerates every pair.
namespace udapl::soft {

enum class ConnectionState : std::uint8_t {
  kIdle,
  kConnecting,   // a Handshake is in progress
  kAccepting,    // responder: waits for the peer's first message, and may send nothing before it
  kReady,        // established
  kDraining,     // graceful disconnect: finishes the requests
  kHalfClosed,   // this side of the stream is closed; waits until the peer closes its side
  kTerminating,  // a Terminate is being sent, input is ignored
  kError
};
inline constexpr int kConnectionStates = static_cast<int>(ConnectionState::kError) + 1;

// In this order: calls of the core; events of the set-up; events from the peer; events of the work
// and of the time limits.
enum class ConnectionEvent : std::uint8_t {
  kConnect,
  kAccept,  // a responder got its link
  kDrain,   // a graceful disconnect
  kAbort,   // an abrupt disconnect, or the QP is about to be destroyed
  kReset,

  kNotStarted,   // a connect failed at once
  kEstablished,  // an initiator got its link
  kRejected,     // a SetupFailure, like the next three
  kRefused,      // also: an initiator got a link that it cannot use
  kUnreachable,
  kTooLate,

  kFirstMessage,  // the peer's first message arrived, or this side may send first (kGrace)
  kPeerEnded,     // the peer's FIN arrived and all its messages were handled, or no FIN in time
  kPeerGone,      // the peer closed and then reset the connection

  kDrained,            // all work is done
  kLost,               // a fault that is not reported to the peer
  kLostUndelivered,    // the same while not all that we sent had reached the peer's host
  kPeerReportedFault,  // a fault that the peer has reported
  kReportFault,        // a fault that must be reported to the peer
  kFaultReported,      // the fault was reported to the peer
  kFaultUnreportable,  // the fault cannot be reported to the peer
};
inline constexpr int kConnectionEvents = static_cast<int>(ConnectionEvent::kFaultUnreportable) + 1;

// The action of a step. kEndGently and kEndReset complete all work and close the link, if there is
// one, with Close::kGently or Close::kReset.
enum class ConnectionAction : std::uint8_t {
  kNone,
  kAwaitFirst,    // read until the peer's first message is complete
  kPauseInput,    // read nothing until the core has been notified of the connection
  kFinishOutput,  // close our side of the stream
  kTerminate,     // send a Terminate with the reason
  kForget,        // restore the state after construction
  kEndGently,
  kEndReset
};

struct ConnectionStep {
  bool allowed;  // false: nothing happens
  ConnectionState next;
  ConnectionAction action;
  SinkCall call;  // the sink call to make
};

// Whether the core has been notified of the connection, and not yet of its end.
[[nodiscard]] constexpr bool is_connected(ConnectionState s) noexcept {
  return s >= ConnectionState::kReady && s <= ConnectionState::kTerminating;
}

[[nodiscard]] constexpr ConnectionStep connection_step(ConnectionState state,
                                                       ConnectionEvent event) noexcept {
  using State = ConnectionState;
  using Event = ConnectionEvent;
  using Action = ConnectionAction;
  using Call = SinkCall;
  constexpr auto go_if = [](bool allowed, State next, Action action = Action::kNone,
                            Call call = Call::kNoCall) {
    return ConnectionStep{allowed, next, action, call};
  };
  const bool idle = state == State::kIdle;
  const bool connecting = state == State::kConnecting;
  const bool terminating = state == State::kTerminating;
  // The sink call for an end that the consumer has not requested.
  const Call broken = state == State::kAccepting ? Call::kAcceptFailed : Call::kBroken;
  const bool has_link = state == State::kAccepting || is_connected(state);
  const bool accepts_input = has_link && !terminating;

  switch (event) {
    case Event::kConnect:
      return go_if(idle, State::kConnecting);
    case Event::kAccept:
      return go_if(idle, State::kAccepting, Action::kAwaitFirst);
    case Event::kNotStarted:  // a disconnect may have come first
      return go_if(connecting, State::kIdle);
    case Event::kEstablished:
      return go_if(idle || connecting, State::kReady, Action::kPauseInput, Call::kEstablished);
    case Event::kRejected:
      return go_if(connecting, State::kError, Action::kEndReset, Call::kRejected);
    case Event::kRefused:
      return go_if(idle || connecting, State::kError, Action::kEndReset, Call::kRefused);
    case Event::kUnreachable:
      return go_if(connecting, State::kError, Action::kEndReset, Call::kUnreachable);
    case Event::kTooLate:
      return go_if(connecting, State::kError, Action::kEndReset, Call::kTimedOut);

    case Event::kFirstMessage:
      return go_if(state == State::kAccepting, State::kReady, Action::kPauseInput,
                   Call::kEstablished);
    case Event::kDrain:
      return go_if(state == State::kReady, State::kDraining);
    case Event::kDrained:
      return go_if(state == State::kDraining, State::kHalfClosed, Action::kFinishOutput);
    case Event::kPeerEnded:
      return go_if(accepts_input && state != State::kAccepting, State::kError, Action::kEndGently,
                   Call::kDisconnected);
    case Event::kPeerGone:
      return go_if(accepts_input && state != State::kAccepting, State::kError, Action::kEndReset,
                   Call::kDisconnected);

    case Event::kReportFault:
      if (state == State::kReady || state == State::kDraining)
        return go_if(true, State::kTerminating, Action::kTerminate);
      [[fallthrough]];  // nothing may be sent to the peer, or it no longer reads
    case Event::kLost:
      // All our work is done and has reached the peer's host. A peer that still has unfinished work
      // may then reset the connection, which is an orderly end for us.
      if (state == State::kHalfClosed && event == Event::kLost)
        return go_if(true, State::kError, Action::kEndReset, Call::kDisconnected);
      [[fallthrough]];
    case Event::kLostUndelivered:
      return go_if(accepts_input, State::kError, Action::kEndReset, broken);
    case Event::kPeerReportedFault:
      return go_if(accepts_input, State::kError, Action::kEndGently, broken);
    case Event::kFaultReported:
      return go_if(terminating, State::kError, Action::kEndGently, Call::kBroken);
    case Event::kFaultUnreportable:
      return go_if(terminating, State::kError, Action::kEndReset, Call::kBroken);

    case Event::kAbort:
      return go_if(state != State::kError, State::kError, Action::kEndGently);
    case Event::kReset:
      break;
  }
  return go_if(state == State::kError, State::kIdle, Action::kForget);
}

// Whether the event ends the connection without a fault, so that the peer gets all that has reached
// its host.
[[nodiscard]] constexpr bool ends_in_order(ConnectionState state, ConnectionEvent event) noexcept {
  return event == ConnectionEvent::kPeerEnded ||
         (event == ConnectionEvent::kLost && state == ConnectionState::kHalfClosed);
}

// For traces.
[[nodiscard]] constexpr const char* name_of(ConnectionState state) noexcept {
  constexpr const char* kNames[] = {"idle",     "connecting",  "accepting",   "ready",
                                    "draining", "half closed", "terminating", "error"};
  return kNames[static_cast<int>(state)];
}

}  // namespace udapl::soft
