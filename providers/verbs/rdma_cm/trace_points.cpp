// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/trace_points.h"

#include <cstring>

namespace udapl::verbs {

const char* name_of(rdma_cm_event_type event) noexcept { return ::rdma_event_str(event); }

const char* reject_reason(int status, bool iwarp) noexcept {
  if (iwarp) return ::strerrordesc_np(status < 0 ? -status : status);
  switch (status) {
    case 1:
      return "no QP";
    case 3:
      return "no resources";
    case 4:
      return "timeout";
    case 5:
      return "unsupported request";
    case 6:
      return "invalid communication id";
    case 8:
      return "invalid service id: no listener";
    case 9:
      return "invalid transport";
    case 10:
      return "stale connection";
    case 12:
    case 13:
    case 15:
      return "the peer's port or path does not match";
    case 26:
      return "invalid path MTU";
    case 27:
      return "insufficient responder resources";
    case kConsumerReject:
      return "rejected by the consumer";
    case 33:
      return "invalid flow label";
    default:
      return "see the InfiniBand specification, REJ reasons";
  }
}

namespace point {

using trace::Kind;

void event(const rdma_cm_event& event) noexcept {
  if (!trace::enabled(trace::kDetail)) return;
  const bool reason = event.event == RDMA_CM_EVENT_REJECTED && event.status > 0;
  trace::emit(
      {.level = trace::kDetail,
       .kind = Kind::kVerbsEvent,
       .code = event.status,
       .function = "rdma_cm",
       .text = name_of(event.event),
       .status = reason ? reject_reason(event.status, false) : name_of_errno(event.status)});
}

}  // namespace point

}  // namespace udapl::verbs
