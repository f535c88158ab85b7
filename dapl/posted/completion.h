// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/dat_ib_extensions.h>

#include "dapl/posted/cookie_ring.h"
#include "dapl/posted/ep_queues.h"
#include "dapl/posted/srq_cookies.h"
#include "dapl/posted/trace_points.h"
#include "dapl/transport/types.h"

#include <cstdint>
#include <cstring>

// Converts a transport's completion to a DAT event.
namespace udapl::dapl {

[[nodiscard]] inline Cookie& cookie_of(const transport::Completion& completion) noexcept {
  return *reinterpret_cast<Cookie*>(static_cast<std::uintptr_t>(completion.id));
}

// The EP of a completion; for an SRQ's buffer, the EP that consumed it.
[[nodiscard]] inline void* ep_of(const transport::Completion& completion) noexcept {
  EpQueues* const poster = cookie_of(completion).ep;
  return poster != nullptr ? poster : completion.qp_context;
}

// Whether the consumer sees the completion. The success of a suppressed request is signalled only
// to free slots, and makes no event.
[[nodiscard]] inline bool makes_event(const transport::Completion& completion) noexcept {
  return completion.status != DAT_DTO_SUCCESS || !cookie_of(completion).suppressed;
}

// Frees the cookie of a completion, and those of silent requests before it. Completions of one EP
// and direction are retired in their order.
inline void retire(const transport::Completion& completion) noexcept {
  Cookie& cookie = cookie_of(completion);
  if (cookie.ep != nullptr) [[likely]] {
    cookie.ep->retire(cookie);
  } else {
    auto& buffer = static_cast<SrqCookie&>(cookie);
    buffer.owner->retire(buffer);
  }
}

// The IB extension event of an atomic, an RDMA write with immediate data, or its arrival.
[[gnu::cold]] inline void to_extension_event(const transport::Completion& completion,
                                             DAT_DTOS operation, DAT_EVENT* event) noexcept {
  DAT_IB_EXTENSION_EVENT_DATA extension{};
  switch (static_cast<int>(operation)) {
    case DAT_IB_DTO_FETCH_ADD:
      extension.type = DAT_IB_FETCH_AND_ADD;
      break;
    case DAT_IB_DTO_CMP_SWAP:
      extension.type = DAT_IB_CMP_AND_SWAP;
      break;
    case DAT_IB_DTO_RDMA_WRITE_IMMED:
      extension.type = DAT_IB_RDMA_WRITE_IMMED;
      break;
    default:
      extension.type = DAT_IB_RDMA_WRITE_IMMED_DATA;
      extension.val.immed.data = completion.immediate;
  }
  // The status of the event is the DTO status, as existing programs know it.
  extension.status = static_cast<DAT_IB_STATUS>(completion.status);
  event->event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
  static_assert(sizeof extension <= sizeof event->event_extension_data);
  std::memcpy(event->event_extension_data, &extension, sizeof extension);
}

// Like to_event, for completions of every kind.
[[nodiscard, gnu::noinline]] inline bool to_other_event(const transport::Completion& completion,
                                                        DAT_EVD_HANDLE evd,
                                                        DAT_EVENT* event) noexcept {
  const Cookie& cookie = cookie_of(completion);
  const bool success = completion.status == DAT_DTO_SUCCESS;
  if (success && cookie.suppressed) [[unlikely]] {
    retire(completion);
    return false;
  }
  event->evd_handle = evd;
  if (cookie.operation == DAT_DTO_BIND_MW) [[unlikely]] {
    event->event_number = DAT_RMR_BIND_COMPLETION_EVENT;
    DAT_RMR_BIND_COMPLETION_EVENT_DATA& data = event->event_data.rmr_completion_event_data;
    data.rmr_handle = cookie.rmr;
    data.user_cookie = cookie.user;
    data.status = completion.status;
  } else {
    const bool receive = cookie.operation == DAT_DTO_RECEIVE;
    event->event_number = DAT_DTO_COMPLETION_EVENT;
    DAT_DTO_COMPLETION_EVENT_DATA& data = event->event_data.dto_completion_event_data;
    data.ep_handle = ep_of(completion);
    data.user_cookie = cookie.user;
    data.status = completion.status;
    data.transfered_length = !success ? 0 : receive ? completion.length : cookie.length;
    data.operation = receive ? completion.operation : cookie.operation;
    data.rmr_context = completion.rmr_context;
    if (cookie.ib_extension || static_cast<int>(completion.operation) >= DAT_DTO_EXTENSION_BASE)
        [[unlikely]]
      to_extension_event(completion, data.operation, event);
  }
  retire(completion);
  return true;
}

// If the completion is a successful transfer, fills *event, frees the cookie and returns true.
// Otherwise does nothing and returns false.
[[nodiscard, gnu::always_inline]] inline bool to_plain_event(
    const transport::Completion& completion, DAT_EVD_HANDLE evd, DAT_EVENT* event) noexcept {
  static_assert(DAT_DTO_SUCCESS == 0 && DAT_DTO_BIND_MW < 8);
  const Cookie& cookie = cookie_of(completion);
  const unsigned kind =
      static_cast<unsigned>(completion.status) << 3U | static_cast<unsigned>(completion.operation);
  if (kind >= DAT_DTO_BIND_MW || !cookie.plain || trace::enabled(trace::kDetail)) [[unlikely]]
    return false;
  EpQueues& ep = *cookie.ep;
  DAT_DTO_COMPLETION_EVENT_DATA& data = event->event_data.dto_completion_event_data;
  event->event_number = DAT_DTO_COMPLETION_EVENT;
  event->evd_handle = evd;
  data.ep_handle = &ep;
  data.user_cookie = cookie.user;
  data.status = DAT_DTO_SUCCESS;
  data.rmr_context = completion.rmr_context;
  if (cookie.operation == DAT_DTO_RECEIVE) {
    data.operation = completion.operation;
    data.transfered_length = completion.length;
    ep.receives.cookies.retire(&cookie);
  } else {
    data.operation = cookie.operation;
    data.transfered_length = cookie.length;
    ep.requests.cookies.retire(&cookie);
  }
  return true;
}

// Frees the cookie and fills *event, whose EVD handle is `evd`. Returns false if the completion
// makes no event.
[[nodiscard]] inline bool to_event(const transport::Completion& completion, DAT_EVD_HANDLE evd,
                                   DAT_EVENT* event) noexcept {
  if (to_plain_event(completion, evd, event)) [[likely]]
    return true;
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::completion(completion, evd);
  return to_other_event(completion, evd, event);
}

}  // namespace udapl::dapl
