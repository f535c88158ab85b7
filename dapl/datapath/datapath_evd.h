// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/events/evd.h"
#include "dapl/events/evd_dequeue.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/object.h"
#include "dapl/objects/traced_call.h"

// The table entries that take events out of an EVD, bound to the transport's CQ class at compile
// time. They are the same on threadsafe and nonthreadsafe entries: any number of threads may
// dequeue, concurrently with posts and waits.
namespace udapl::dapl {

// Called when the EVD was empty and the transport makes progress in its callers' threads. Another
// thread may free the EVD meanwhile.
template <CompletionQueue C>
[[nodiscard, gnu::noinline]] DAT_RETURN dequeue_with_progress(Evd& evd, DAT_EVENT* event) noexcept {
  if (static_cast<C*>(evd.cq())->progress()) {
    if (evd.dequeue<C>(event)) return DAT_SUCCESS;
    if (evd.is_shut()) [[unlikely]]
      return dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_REQUEST);
  }
  return DAT_QUEUE_EMPTY;
}

// A dequeue that checks everything: the handle, the pointer, a waiter, the ring of other events.
template <CompletionQueue C>
[[nodiscard, gnu::noinline]] DAT_RETURN dequeue_validating(DAT_EVD_HANDLE handle,
                                                           DAT_EVENT* event) noexcept {
  Evd* const evd = handle_cast<Evd>(handle);
  if (evd == nullptr) return dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_REQUEST);
  if (event == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  if (evd->waited()) return dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
  if (evd->cq() == nullptr) {
    if (evd->dequeue_from_ring(event)) return DAT_SUCCESS;
    evd->polled_in_vain();
    return dat_error(DAT_QUEUE_EMPTY);
  }
  if (evd->dequeue<C>(event)) return DAT_SUCCESS;
  if constexpr (C::kDrivesProgress) return dequeue_with_progress<C>(*evd, event);
  evd->polled_in_vain();
  return DAT_QUEUE_EMPTY;
}

namespace calls {

// An empty EVD with a CQ returns QUEUE_EMPTY without class bits, any other EVD with them: consumers
// compare with the codes that OpenFabrics returns (docs/compatibility.md C18).
template <CompletionQueue C>
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT* event) noexcept {
  // The registry has dispatched the call through the first word of the object, so there is one.
  auto& object = *static_cast<ObjectHeader*>(handle);
  if (object.dequeue_gate.load(std::memory_order_acquire) != 0 || event == nullptr) [[unlikely]]
    return dequeue_validating<C>(handle, event);
  auto& evd = static_cast<Evd&>(object);
  if (evd.dequeue<C>(event)) {
    if constexpr (C::kDrivesProgress) {
      if (static_cast<C*>(evd.cq())->turn_due()) [[unlikely]]
        static_cast<C*>(evd.cq())->progress();
    }
    return DAT_SUCCESS;
  }
  if constexpr (C::kDrivesProgress) return dequeue_with_progress<C>(evd, event);
  return DAT_QUEUE_EMPTY;
}

// A wait for one event that is already queued takes it without becoming the EVD's waiter.
template <CompletionQueue C>
DAT_RETURN evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                    DAT_EVENT* event, DAT_COUNT* more) {
  if (threshold == 1 && event != nullptr && more != nullptr && !trace::enabled(trace::kDetail))
      [[likely]] {
    Evd* const evd = handle_cast<Evd>(handle);
    if (evd != nullptr && evd->try_dequeue<C>(event, more)) [[likely]]
      return DAT_SUCCESS;
  }
  return kTraced<evd_wait_slow_path, "evd_wait", trace::kDetail, Defers::kNothing>(
      handle, timeout, threshold, event, more);
}

}  // namespace calls
}  // namespace udapl::dapl
