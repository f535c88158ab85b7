// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/sink_call.h"

#include <cstdint>

// The state machine of a connection as a pure table: no object, no lock, no I/O.
// tests/unit/soft/connection_state.cpp enumerates every pair.
namespace udapl::soft {

enum class ConnectionState : std::uint8_t {
  kIdle,
  kConnecting,   // a Handshake runs
  kAccepted,     // responder: waits for the peer's first message, until then nothing may be sent
  kReady,        // established
  kDraining,     // graceful disconnect: finishing the requests
  kHalfClosed,   // our end is sent, waiting for the peer's
  kTerminating,  // a Terminate is on its way out, input is ignored
  kError
};
inline constexpr int kConnectionStates = static_cast<int>(ConnectionState::kError) + 1;

// The events. First the calls of the core, then those from the connection manager, from the peer,
// and from the work and the time limits.
enum class ConnectionInput : std::uint8_t {
  kConnect,
  kDisconnectAbrupt,
  kDisconnectGraceful,
  kReset,
  kDestroy,

  kNotStarted,    // a connect failed at once
  kSetupFailed,   // the Handshake failed
  kActiveLink,    // an initiator got its link
  kPassiveLink,   // a responder got its link
  kUnusableLink,  // an initiator got a link that it cannot use

  kFirstMessage,  // the peer's first message arrived, or the peer has waited long enough for ours
  kPeerClosed,    // the peer's FIN arrived and all its messages were handled, or no FIN in time
  kPeerGone,      // the peer closed and then reset the connection

  kDrained,            // all work is done
  kLost,               // a fault that is not reported to the peer
  kLostUndelivered,    // ... while not all that we sent had reached the peer's host
  kPeerReportedFault,  // a fault that the peer has reported
  kReportFault,        // a fault that must be reported to the peer
  kFaultReported,      // ... which was done
  kFaultUnreportable,  // ... which is not possible
};
inline constexpr int kConnectionInputs = static_cast<int>(ConnectionInput::kFaultUnreportable) + 1;

enum class ConnectionVerdict : std::uint8_t {
  kProceed,  // go to `next`, perform the action and make the call
  kNothing,  // no effect: legal, or too late
  kIllegal   // INVALID_STATE
};

// The action of a step. kEndGently and kEndReset complete all work and close the link, if there is
// one, in this way.
enum class ConnectionAction : std::uint8_t {
  kNone,
  kAwaitFirst,    // read until the peer's first message is complete
  kPauseInput,    // read nothing until the core has been notified that we are connected
  kFinishOutput,  // close our side of the stream
  kTerminate,     // send a Terminate with the reason
  kForget,        // restore the state after construction
  kEndGently,
  kEndReset
};

struct ConnectionStep {
  ConnectionVerdict verdict;
  ConnectionState next;
  ConnectionAction action;
  SinkCall call;
};

// Whether the core has been notified of the connection, and not yet of its end.
[[nodiscard]] constexpr bool is_connected(ConnectionState s) noexcept {
  return s >= ConnectionState::kReady && s <= ConnectionState::kTerminating;
}

[[nodiscard]] constexpr ConnectionStep connection_step(ConnectionState state,
                                                       ConnectionInput input) noexcept {
  using State = ConnectionState;
  using Input = ConnectionInput;
  using Action = ConnectionAction;
  using Verdict = ConnectionVerdict;
  using Call = SinkCall;
  constexpr auto go = [](State next, Action action = Action::kNone,
                         SinkCall call = SinkCall::kNoCall) {
    return ConnectionStep{Verdict::kProceed, next, action, call};
  };
  constexpr auto nothing = [] {
    return ConnectionStep{Verdict::kNothing, State::kIdle, Action::kNone, SinkCall::kNoCall};
  };
  constexpr auto illegal = [] {
    return ConnectionStep{Verdict::kIllegal, State::kIdle, Action::kNone, SinkCall::kNoCall};
  };
  const bool idle = state == State::kIdle;
  const bool connecting = state == State::kConnecting;
  const bool terminating = state == State::kTerminating;
  // For an end that the consumer has not requested.
  const SinkCall broken = state == State::kAccepted ? Call::kAcceptFailed : Call::kBroken;
  const bool has_link = state == State::kAccepted || is_connected(state);
  const bool accepts_input = has_link && !terminating;

  switch (input) {
    case Input::kConnect:
      return idle ? go(State::kConnecting) : illegal();
    case Input::kNotStarted:  // a disconnect may have come first
      return connecting ? go(State::kIdle) : nothing();
    case Input::kSetupFailed:
      return connecting ? go(State::kError, Action::kEndReset, Call::kSetupOutcome) : nothing();
    case Input::kActiveLink:
      return idle || connecting ? go(State::kReady, Action::kPauseInput, Call::kEstablished)
                                : illegal();
    case Input::kUnusableLink:
      return idle || connecting ? go(State::kError, Action::kEndReset, Call::kRefused) : illegal();
    case Input::kPassiveLink:
      return idle ? go(State::kAccepted, Action::kAwaitFirst) : illegal();

    case Input::kFirstMessage:
      return state == State::kAccepted ? go(State::kReady, Action::kPauseInput, Call::kEstablished)
                                       : nothing();
    case Input::kDisconnectGraceful:
      return state == State::kReady ? go(State::kDraining) : nothing();
    case Input::kDrained:
      return state == State::kDraining ? go(State::kHalfClosed, Action::kFinishOutput) : nothing();
    case Input::kPeerClosed:
      return accepts_input && state != State::kAccepted
                 ? go(State::kError, Action::kEndGently, Call::kDisconnected)
                 : nothing();
    case Input::kPeerGone:
      return accepts_input && state != State::kAccepted
                 ? go(State::kError, Action::kEndReset, Call::kDisconnected)
                 : nothing();

    case Input::kReportFault:
      if (state == State::kReady || state == State::kDraining)
        return go(State::kTerminating, Action::kTerminate);
      [[fallthrough]];  // nothing may be sent to the peer, or it no longer reads
    case Input::kLost:
      // All our work was done and has reached the peer. A peer with unfinished work may then reset
      // the connection.
      if (state == State::kHalfClosed && input == Input::kLost)
        return go(State::kError, Action::kEndReset, Call::kDisconnected);
      [[fallthrough]];
    case Input::kLostUndelivered:
      return accepts_input ? go(State::kError, Action::kEndReset, broken) : nothing();
    case Input::kPeerReportedFault:
      return accepts_input ? go(State::kError, Action::kEndGently, broken) : nothing();
    case Input::kFaultReported:
      return terminating ? go(State::kError, Action::kEndGently, Call::kBroken) : nothing();
    case Input::kFaultUnreportable:
      return terminating ? go(State::kError, Action::kEndReset, Call::kBroken) : nothing();

    case Input::kDisconnectAbrupt:
    case Input::kDestroy:
      return state != State::kError ? go(State::kError, Action::kEndGently) : nothing();
    case Input::kReset:
      if (idle) return nothing();
      return state == State::kError ? go(State::kIdle, Action::kForget) : illegal();
  }
  return illegal();
}

// For traces.
[[nodiscard]] constexpr const char* name(ConnectionState state) noexcept {
  constexpr const char* kNames[] = {"idle",     "connecting",  "accepted",    "ready",
                                    "draining", "half closed", "terminating", "error"};
  return kNames[static_cast<int>(state)];
}

}  // namespace udapl::soft
