// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/connection_state.h"

namespace udapl::verbs {

namespace {

using enum SinkCall;

constexpr QpStep kIgnored{false, QpState::kIdle, kNoCall, Ending::kNone};

constexpr QpStep to(QpState next, SinkCall call = kNoCall) noexcept {
  return {true, next, call, Ending::kNone};
}
constexpr QpStep fail(SinkCall call, Ending ending = Ending::kDrop) noexcept {
  return {true, QpState::kError, call, ending};
}

constexpr QpStep connecting(QpEvent event) noexcept {
  switch (event) {
    case QpEvent::kEstablished:
      return to(QpState::kReady, kEstablished);
    case QpEvent::kRejected:
      return fail(kRejected);
    case QpEvent::kRefused:
      return fail(kRefused);
    case QpEvent::kUnreachable:
    case QpEvent::kPeerEnded:
    case QpEvent::kPeerLost:
      return fail(kUnreachable);
    case QpEvent::kTooLate:
      return fail(kTimedOut);
    case QpEvent::kAbort:
      return fail(kNoCall);
    default:
      return kIgnored;
  }
}

constexpr QpStep accepting(QpEvent event) noexcept {
  switch (event) {
    case QpEvent::kEstablished:
      return to(QpState::kReady, kEstablished);
    case QpEvent::kRejected:
    case QpEvent::kRefused:
    case QpEvent::kUnreachable:
    case QpEvent::kPeerEnded:
    case QpEvent::kPeerLost:
    case QpEvent::kTooLate:
      return fail(kAcceptFailed);
    case QpEvent::kAbort:
      return fail(kNoCall);
    default:
      return kIgnored;
  }
}

constexpr QpStep connected(QpState state, QpEvent event) noexcept {
  const bool draining = state == QpState::kDraining;
  switch (event) {
    case QpEvent::kPeerEnded:
      return fail(kDisconnected, Ending::kAnswer);
    case QpEvent::kPeerBroke:
      return fail(kBroken, Ending::kAnswer);
    case QpEvent::kPeerLost:
    case QpEvent::kBroken:
      return fail(kBroken, Ending::kDisconnect);
    case QpEvent::kDrain:
      return draining ? kIgnored : to(QpState::kDraining);
    case QpEvent::kDrained:
    case QpEvent::kTooLate:
      return draining ? fail(kDisconnected, Ending::kDisconnect) : kIgnored;
    case QpEvent::kAbort:
      return fail(kNoCall, Ending::kDisconnect);
    default:
      return kIgnored;
  }
}

}  // namespace

QpStep step(QpState state, QpEvent event) noexcept {
  switch (state) {
    case QpState::kIdle:
      if (event == QpEvent::kConnect) return to(QpState::kConnecting);
      return event == QpEvent::kAccept ? to(QpState::kAccepting) : kIgnored;
    case QpState::kConnecting:
      return connecting(event);
    case QpState::kAccepting:
      return accepting(event);
    case QpState::kReady:
    case QpState::kDraining:
      return connected(state, event);
    case QpState::kError:
      break;
  }
  return event == QpEvent::kReset ? to(QpState::kIdle) : kIgnored;
}

const char* name_of(QpState state) noexcept {
  static constexpr const char* kNames[kQpStates] = {"idle",  "connecting", "accepting",
                                                    "ready", "draining",   "error"};
  return kNames[static_cast<int>(state)];
}

}  // namespace udapl::verbs
