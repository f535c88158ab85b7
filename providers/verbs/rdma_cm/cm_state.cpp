// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/cm_state.h"

namespace udapl::verbs {

namespace {

constexpr CmAction only_in(bool expected, CmAction action) noexcept {
  return expected ? action : CmAction::kIgnore;
}

}  // namespace

CmAction action_of(CmState state, rdma_cm_event_type event) noexcept {
  if (state == CmState::kNew) return CmAction::kIgnore;
  if (state == CmState::kAsked) return CmAction::kPeerGone;  // no other event is possible
  const bool requested = state == CmState::kRequested;
  const bool contacted = requested || state == CmState::kAttached;
  switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return only_in(state == CmState::kResolvingAddress, CmAction::kResolveRoute);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return only_in(state == CmState::kResolvingRoute, CmAction::kRequest);
    case RDMA_CM_EVENT_ADDR_ERROR:
      return only_in(state == CmState::kResolvingAddress, CmAction::kRetry);
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return only_in(state == CmState::kResolvingRoute, CmAction::kRetry);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return only_in(requested, CmAction::kReply);
    case RDMA_CM_EVENT_ESTABLISHED:
      return only_in(contacted, CmAction::kEstablished);
    case RDMA_CM_EVENT_REJECTED:
      return only_in(contacted, CmAction::kRejected);
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return CmAction::kLost;
    default:
      return CmAction::kTrace;
  }
}

const char* name_of(CmState state) noexcept {
  static constexpr const char* kNames[kCmStates] = {
      "idle", "resolving the address", "resolving the route", "connecting", "asked", "accepting"};
  return kNames[static_cast<int>(state)];
}

}  // namespace udapl::verbs
