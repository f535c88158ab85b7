// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

// What an event of rdma_cm means to a connection: one pure function of state and event.
namespace udapl::verbs {

enum class CmState : std::uint8_t {
  kNew,               // active side, not started
  kResolvingAddress,  //
  kResolvingRoute,    //
  kRequested,         // rdma_connect was called, or is about to be; also later
  kAsked,             // passive side: the consumer has not decided
  kAttached           // it has, and there is a QP; also later
};
inline constexpr int kCmStates = 6;

enum class CmAction : std::uint8_t {
  kIgnore,
  kTrace,         // a hint, and what is not known: the connection goes on over the path that it has
  kResolveRoute,  //
  kRequest,       // send the request
  kRetry,         // resolving has failed: once more, or the peer is unreachable
  kReply,         // the peer has accepted; as the next three, the QP is told
  kEstablished,   //
  kRejected,      //
  kLost,          //
  kPeerGone       // before the decision
};

[[nodiscard]] CmAction action_of(CmState state, rdma_cm_event_type event) noexcept;
[[nodiscard]] const char* name_of(CmState state) noexcept;

}  // namespace udapl::verbs
