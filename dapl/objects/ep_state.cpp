// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/ep_state.h"

namespace udapl::dapl {

const char* name(DAT_EP_STATE state) noexcept {
  switch (state) {
    case DAT_EP_STATE_UNCONNECTED:
      return "UNCONNECTED";
    case DAT_EP_STATE_RESERVED:
      return "RESERVED";
    case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
      return "PASSIVE_CONNECTION_PENDING";
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
      return "ACTIVE_CONNECTION_PENDING";
    case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
      return "TENTATIVE_CONNECTION_PENDING";
    case DAT_EP_STATE_CONNECTED:
      return "CONNECTED";
    case DAT_EP_STATE_DISCONNECT_PENDING:
      return "DISCONNECT_PENDING";
    case DAT_EP_STATE_DISCONNECTED:
      return "DISCONNECTED";
    case DAT_EP_STATE_COMPLETION_PENDING:
      return "COMPLETION_PENDING";
    default:
      return "(no state)";
  }
}

const char* name(EpInput input) noexcept {
  static constexpr const char* kNames[] = {
      "connect",         "rsp_create",    "rsp_free",     "cr_accept",
      "cr_accept (own)", "cr_reject",     "disconnect",   "graceful disconnect",
      "reset",           "free",          "request",      "request lost",
      "established",     "rejected",      "refused",      "unreachable",
      "timed out",       "accept failed", "disconnected", "broken"};
  static_assert(sizeof kNames / sizeof kNames[0] == kEpInputs);
  return kNames[static_cast<int>(input)];
}

}  // namespace udapl::dapl
