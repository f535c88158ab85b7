// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

// Maps an event of rdma_cm to the action of a connection: one pure function of state and event.
namespace udapl::verbs {

enum class CmState : std::uint8_t {
  kNew,               // active side, not started
  kResolvingAddress,  //
  kResolvingRoute,    //
  kRequested,         // rdma_connect was called, or is about to be; stays so until the end
  kAsked,             // passive side: the consumer has not decided
  kAttached           // the consumer has accepted, with a QP; stays so until the end
};
inline constexpr int kCmStates = 6;

enum class CmAction : std::uint8_t {
  kIgnore,
  kTrace,         // a hint or an unknown event: the connection continues over its path
  kResolveRoute,  //
  kRequest,       // send the request
  kRetry,         // resolution has failed: retry, or report the peer as unreachable
  kReply,         // the peer has accepted; this and the next three are reported to the QP
  kEstablished,   //
  kRejected,      //
  kLost,          //
  kPeerGone       // the peer has given up before the consumer's decision
};

[[nodiscard]] CmAction action_of(CmState state, rdma_cm_event_type event) noexcept;
[[nodiscard]] const char* name_of(CmState state) noexcept;

}  // namespace udapl::verbs
