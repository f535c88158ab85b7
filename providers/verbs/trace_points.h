// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "common/tracing/trace.h"

// Trace records of verbs and rdma_cm at level DETAIL: calls, their results, and asynchronous
// events. They are about the object that the thread currently works on (trace::About). None is in
// the path of a post or of a successful completion.
namespace udapl::verbs::point {

[[gnu::cold, gnu::noinline]] void call(const char* function, const char* what, int error) noexcept;

// Records that a control call has ended with `error`, an errno value, or 0 for success. `what`: its
// object or destination. Returns `error`.
inline int ended(const char* function, const char* what, int error) noexcept {
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    call(function, what, error);
  return error;
}

// Like ended(), for calls that return an object, or null and errno.
template <class T>
T* made(const char* function, T* object) noexcept {
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    call(function, "", object != nullptr ? 0 : errno);
  return object;
}

// Records that a post was refused with `error`. Returns post_error(error).
[[nodiscard, gnu::cold, gnu::noinline]] DAT_RETURN refused(const char* function,
                                                           int error) noexcept;

// "ENOMEM" for 12 or -12; "ok" for 0. Never null.
[[nodiscard]] const char* name_of_errno(int error) noexcept;

// Records an asynchronous event. Call it where the event is handled.
void event(ibv_event_type type) noexcept;

// Records a completion with an error. `ep`: the owner of its queue.
void failed_work(const ibv_wc& work, const void* ep) noexcept;

}  // namespace udapl::verbs::point
