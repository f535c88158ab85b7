// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/result.h"

#include <cstdint>

// The EP state machine as a pure table: no object, no lock, no I/O. docs/semantics.md#ep-states has
// the transitions and the legal calls per state; tests/unit/dapl_ep enumerates every pair.
namespace udapl::dapl {

// The inputs of the state machine: first the consumer's calls, then the transport's reports.
enum class EpInput : std::uint8_t {
  kConnect,    // connect, dup_connect, common_connect
  kReserve,    // rsp_create with this EP
  kRelease,    // rsp_free
  kAccept,     // cr_accept that names this EP
  kAcceptOwn,  // cr_accept of the CR that came with this EP
  kReject,     // reject or handoff of that CR
  kDisconnectAbrupt,
  kDisconnectGraceful,
  kReset,
  kFree,

  kRequest,      // a peer's request arrived at the RSP of this EP
  kRequestLost,  // ... but could not be delivered: the RSP keeps listening
  kEstablished,
  kRejected,  // by the peer's consumer
  kRefused,   // by the peer's stack
  kUnreachable,
  kTimedOut,
  kAcceptFailed,
  kDisconnected,  // by the peer, or a local graceful disconnect has completed
  kBroken,
};
inline constexpr int kEpInputs = static_cast<int>(EpInput::kBroken) + 1;

enum class EpVerdict : std::uint8_t {
  kProceed,  // go to state `next`, and post `event` if there is one
  kNothing,  // legal (or a report that lost a race): no effect
  kIllegal   // INVALID_STATE
};

struct EpStep {
  EpVerdict verdict;
  DAT_EP_STATE next;
  DAT_EVENT_NUMBER event;  // on the connect EVD; kNoEvent for none
};
inline constexpr auto kNoEvent = static_cast<DAT_EVENT_NUMBER>(0);

// The states a provider uses: the others of DAT_EP_STATE never occur.
inline constexpr DAT_EP_STATE kEpStates[] = {DAT_EP_STATE_UNCONNECTED,
                                             DAT_EP_STATE_RESERVED,
                                             DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
                                             DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING,
                                             DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
                                             DAT_EP_STATE_COMPLETION_PENDING,
                                             DAT_EP_STATE_CONNECTED,
                                             DAT_EP_STATE_DISCONNECT_PENDING,
                                             DAT_EP_STATE_DISCONNECTED};

[[nodiscard]] constexpr bool is_connecting(DAT_EP_STATE s) noexcept {
  return s == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING || s == DAT_EP_STATE_COMPLETION_PENDING;
}
[[nodiscard]] constexpr bool is_connected(DAT_EP_STATE s) noexcept {
  return s == DAT_EP_STATE_CONNECTED || s == DAT_EP_STATE_DISCONNECT_PENDING;
}

[[nodiscard]] constexpr EpStep step(DAT_EP_STATE state, EpInput input) noexcept {
  constexpr auto illegal = [] {
    return EpStep{EpVerdict::kIllegal, DAT_EP_STATE_UNCONNECTED, kNoEvent};
  };
  constexpr auto nothing = [] {
    return EpStep{EpVerdict::kNothing, DAT_EP_STATE_UNCONNECTED, kNoEvent};
  };
  constexpr auto go = [](DAT_EP_STATE next, DAT_EVENT_NUMBER event = kNoEvent) {
    return EpStep{EpVerdict::kProceed, next, event};
  };
  constexpr auto go_if = [](bool legal, DAT_EP_STATE next) {
    return legal ? EpStep{EpVerdict::kProceed, next, kNoEvent}
                 : EpStep{EpVerdict::kIllegal, DAT_EP_STATE_UNCONNECTED, kNoEvent};
  };
  // A report of the transport that lost the race against a local call is ignored.
  constexpr auto ended = [](bool expected, DAT_EVENT_NUMBER event) {
    return expected ? EpStep{EpVerdict::kProceed, DAT_EP_STATE_DISCONNECTED, event}
                    : EpStep{EpVerdict::kNothing, DAT_EP_STATE_UNCONNECTED, kNoEvent};
  };
  const bool active = state == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING;
  const bool unconnected = state == DAT_EP_STATE_UNCONNECTED;

  switch (input) {
    case EpInput::kConnect:
      return go_if(unconnected, DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    case EpInput::kReserve:
      return go_if(unconnected, DAT_EP_STATE_RESERVED);
    case EpInput::kRelease:
      return go_if(state == DAT_EP_STATE_RESERVED, DAT_EP_STATE_UNCONNECTED);
    case EpInput::kRequest:
      return go_if(state == DAT_EP_STATE_RESERVED, DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    case EpInput::kRequestLost:
      return go_if(state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, DAT_EP_STATE_RESERVED);
    case EpInput::kAccept:
      return go_if(unconnected, DAT_EP_STATE_COMPLETION_PENDING);
    case EpInput::kAcceptOwn:
      return go_if(state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
                       state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING,
                   DAT_EP_STATE_COMPLETION_PENDING);
    case EpInput::kReject:  // a tentative EP is destroyed instead
      return go_if(state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, DAT_EP_STATE_UNCONNECTED);
    case EpInput::kDisconnectAbrupt:
    case EpInput::kDisconnectGraceful:
      if (state == DAT_EP_STATE_DISCONNECTED) return nothing();
      if (is_connecting(state) || (is_connected(state) && input == EpInput::kDisconnectAbrupt))
        return go(DAT_EP_STATE_DISCONNECTED, DAT_CONNECTION_EVENT_DISCONNECTED);
      if (state == DAT_EP_STATE_CONNECTED) return go(DAT_EP_STATE_DISCONNECT_PENDING);
      return state == DAT_EP_STATE_DISCONNECT_PENDING ? nothing() : illegal();
    case EpInput::kReset:
      if (unconnected) return nothing();
      return go_if(state == DAT_EP_STATE_DISCONNECTED, DAT_EP_STATE_UNCONNECTED);
    case EpInput::kFree:
      if (state == DAT_EP_STATE_RESERVED || state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
          state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)
        return illegal();
      return go(DAT_EP_STATE_DISCONNECTED);

    case EpInput::kEstablished:
      return is_connecting(state) ? go(DAT_EP_STATE_CONNECTED, DAT_CONNECTION_EVENT_ESTABLISHED)
                                  : nothing();
    case EpInput::kRejected:
      return ended(active, DAT_CONNECTION_EVENT_PEER_REJECTED);
    case EpInput::kRefused:
      return ended(active, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    case EpInput::kUnreachable:
      return ended(active, DAT_CONNECTION_EVENT_UNREACHABLE);
    case EpInput::kTimedOut:
      return ended(active, DAT_CONNECTION_EVENT_TIMED_OUT);
    case EpInput::kAcceptFailed:
      return ended(state == DAT_EP_STATE_COMPLETION_PENDING,
                   DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    case EpInput::kDisconnected:
      return ended(is_connected(state), DAT_CONNECTION_EVENT_DISCONNECTED);
    case EpInput::kBroken:
      return ended(is_connected(state), DAT_CONNECTION_EVENT_BROKEN);
  }
  return illegal();
}

// Whether requests (send, RDMA, bind, atomics) may be posted; in DISCONNECTED they are flushed.
// They may be posted in COMPLETION_PENDING as well, because the connection manager may be slower
// than the peer's first data: a program that finds these in its memory may answer before
// ESTABLISHED is reported.
[[nodiscard]] constexpr bool takes_requests(DAT_EP_STATE s) noexcept {
  return s == DAT_EP_STATE_COMPLETION_PENDING || s == DAT_EP_STATE_CONNECTED ||
         s == DAT_EP_STATE_DISCONNECTED;
}
// Whether dat_ep_modify may change the PZ.
[[nodiscard]] constexpr bool pz_modifiable(DAT_EP_STATE s) noexcept {
  return s == DAT_EP_STATE_UNCONNECTED || s == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING;
}
// Whether dat_ep_modify may change EVDs and attributes.
[[nodiscard]] constexpr bool modifiable(DAT_EP_STATE s) noexcept {
  return pz_modifiable(s) || s == DAT_EP_STATE_RESERVED ||
         s == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING;
}

// INVALID_STATE with the subtype that names the state.
[[nodiscard]] constexpr DAT_RETURN wrong_state(DAT_EP_STATE s) noexcept {
  constexpr auto error = [](DAT_RETURN subtype) { return dat_error(DAT_INVALID_STATE, subtype); };
  switch (s) {
    case DAT_EP_STATE_RESERVED:
      return error(DAT_INVALID_STATE_EP_RESERVED);
    case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
      return error(DAT_INVALID_STATE_EP_PASSCONNPENDING);
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
      return error(DAT_INVALID_STATE_EP_ACTCONNPENDING);
    case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
      return error(DAT_INVALID_STATE_EP_TENTCONNPENDING);
    case DAT_EP_STATE_CONNECTED:
      return error(DAT_INVALID_STATE_EP_CONNECTED);
    case DAT_EP_STATE_DISCONNECT_PENDING:
      return error(DAT_INVALID_STATE_EP_DISCPENDING);
    case DAT_EP_STATE_DISCONNECTED:
      return error(DAT_INVALID_STATE_EP_DISCONNECTED);
    case DAT_EP_STATE_COMPLETION_PENDING:
      return error(DAT_INVALID_STATE_EP_COMPLPENDING);
    default:
      return error(DAT_INVALID_STATE_EP_UNCONNECTED);
  }
}

// The name of the state, for traces.
[[nodiscard]] const char* name(DAT_EP_STATE state) noexcept;
[[nodiscard]] const char* name(EpInput input) noexcept;

}  // namespace udapl::dapl
