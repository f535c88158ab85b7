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
  kReady,        //
  kDraining,     // graceful disconnect: finishing the requests
  kHalfClosed,   // our end is sent, waiting for the peer's
  kTerminating,  // a Terminate is on its way out, input is ignored
  kError
};
inline constexpr int kConnectionStates = static_cast<int>(ConnectionState::kError) + 1;

// What can happen. First the calls of the core, then what the connection manager tells, the peer,
// the work, and time.
enum class ConnectionInput : std::uint8_t {
  kConnect,
  kDisconnectAbrupt,
  kDisconnectGraceful,
  kReset,
  kDestroy,

  kNotStarted,   // a connect that failed at once
  kSetupFailed,  // the Handshake
  kActiveLink,   // of an initiator
  kPassiveLink,  // of a responder
  kUselessLink,  // of an initiator: it cannot be used

  kFirstMessage,  // of the peer, or it has waited for ours long enough
  kPeerClosed,    // its end came, and all that was before it
  kPeerGone,      // it has closed, and now it is not there any more; or it does not close

  kDrained,      // nothing is left to be done
  kLost,         // a fault that the peer is not told of
  kToldByPeer,   // a fault that the peer has told us
  kTellPeer,     // a fault that the peer is to be told
  kPeerTold,     // ... it has been
  kPeerNotTold,  // ... it cannot be
};
inline constexpr int kConnectionInputs = static_cast<int>(ConnectionInput::kPeerNotTold) + 1;

enum class ConnectionVerdict : std::uint8_t {
  kGo,       // to `next`, and do what else the step says
  kNothing,  // legal, or too late: no effect
  kIllegal   // INVALID_STATE
};

// What is done on the way, in this order. kEndGently and kEndReset: all work is completed and the
// link, if there is one, is closed in this way.
enum class ConnectionAction : std::uint8_t {
  kNone,
  kAwaitFirst,    // read until the peer's first message is there
  kPauseInput,    // read nothing until the core knows that we are connected
  kFinishOutput,  // tell the peer that we have ended
  kTerminate,     // tell the peer why
  kForget,        // as after the constructor
  kEndGently,
  kEndReset
};

struct ConnectionStep {
  ConnectionVerdict verdict;
  ConnectionState next;
  ConnectionAction action;
  SinkCall call;
};

// Whether the core has been told that there is a connection, and not yet of its end.
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
    return ConnectionStep{Verdict::kGo, next, action, call};
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
  const bool hears = has_link && !terminating;

  switch (input) {
    case Input::kConnect:
      return idle ? go(State::kConnecting) : illegal();
    case Input::kNotStarted:  // a disconnect may have been faster
      return connecting ? go(State::kIdle) : nothing();
    case Input::kSetupFailed:
      return connecting ? go(State::kError, Action::kEndReset, Call::kSetupOutcome) : nothing();
    case Input::kActiveLink:
      return idle || connecting ? go(State::kReady, Action::kPauseInput, Call::kEstablished)
                                : illegal();
    case Input::kUselessLink:
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
      return hears && state != State::kAccepted
                 ? go(State::kError, Action::kEndGently, Call::kDisconnected)
                 : nothing();
    case Input::kPeerGone:
      return hears && state != State::kAccepted
                 ? go(State::kError, Action::kEndReset, Call::kDisconnected)
                 : nothing();

    case Input::kTellPeer:
      if (state == State::kReady || state == State::kDraining)
        return go(State::kTerminating, Action::kTerminate);
      [[fallthrough]];  // it must not be told, or does not listen any more
    case Input::kLost:
      // We have ended, and all of ours was done: a peer that has something left may reset then.
      if (state == State::kHalfClosed && input == Input::kLost)
        return go(State::kError, Action::kEndReset, Call::kDisconnected);
      return hears ? go(State::kError, Action::kEndReset, broken) : nothing();
    case Input::kToldByPeer:
      return hears ? go(State::kError, Action::kEndGently, broken) : nothing();
    case Input::kPeerTold:
      return terminating ? go(State::kError, Action::kEndGently, Call::kBroken) : nothing();
    case Input::kPeerNotTold:
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
