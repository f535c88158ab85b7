// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/connection_state.h"

namespace udapl::verbs {

namespace {

using State = ConnectionState;
using Event = ConnectionEvent;
using Action = ConnectionAction;
using enum SinkCall;

constexpr ConnectionStep kIgnored{false, State::kIdle, Action::kNone, kNoCall};

constexpr ConnectionStep to(State next, SinkCall call = kNoCall) noexcept {
  return {true, next, Action::kNone, call};
}
constexpr ConnectionStep fail(SinkCall call, Action action = Action::kDrop) noexcept {
  return {true, State::kError, action, call};
}

constexpr ConnectionStep connecting(Event event) noexcept {
  switch (event) {
    case Event::kEstablished:
      return to(State::kReady, kEstablished);
    case Event::kRejected:
      return fail(kRejected);
    case Event::kRefused:
      return fail(kRefused);
    case Event::kUnreachable:
    case Event::kPeerEnded:
    case Event::kPeerLost:
      return fail(kUnreachable);
    case Event::kTooLate:
      return fail(kTimedOut);
    case Event::kAbort:
      return fail(kNoCall);
    default:
      return kIgnored;
  }
}

constexpr ConnectionStep accepting(Event event) noexcept {
  switch (event) {
    case Event::kEstablished:
      return to(State::kReady, kEstablished);
    case Event::kRejected:
    case Event::kRefused:
    case Event::kUnreachable:
    case Event::kPeerEnded:
    case Event::kPeerLost:
    case Event::kTooLate:
      return fail(kAcceptFailed);
    case Event::kAbort:
      return fail(kNoCall);
    default:
      return kIgnored;
  }
}

constexpr ConnectionStep connected(State state, Event event) noexcept {
  const bool draining = state == State::kDraining;
  switch (event) {
    case Event::kPeerEnded:
      return fail(kDisconnected, Action::kAnswer);
    case Event::kPeerBroke:
      return fail(kBroken, Action::kAnswer);
    case Event::kPeerLost:
    case Event::kBroken:
      return fail(kBroken, Action::kDisconnect);
    case Event::kDrain:
      return draining ? kIgnored : to(State::kDraining);
    case Event::kDrained:
    case Event::kTooLate:
      return draining ? fail(kDisconnected, Action::kDisconnect) : kIgnored;
    case Event::kAbort:
      return fail(kNoCall, Action::kDisconnect);
    default:
      return kIgnored;
  }
}

}  // namespace

ConnectionStep connection_step(ConnectionState state, ConnectionEvent event) noexcept {
  switch (state) {
    case State::kIdle:
      if (event == Event::kConnect) return to(State::kConnecting);
      return event == Event::kAccept ? to(State::kAccepting) : kIgnored;
    case State::kConnecting:
      return connecting(event);
    case State::kAccepting:
      return accepting(event);
    case State::kReady:
    case State::kDraining:
      return connected(state, event);
    case State::kError:
      break;
  }
  return event == Event::kReset ? to(State::kIdle) : kIgnored;
}

const char* name_of(ConnectionState state) noexcept {
  static constexpr const char* kNames[kConnectionStates] = {"idle",  "connecting", "accepting",
                                                            "ready", "draining",   "error"};
  return kNames[static_cast<int>(state)];
}

}  // namespace udapl::verbs
