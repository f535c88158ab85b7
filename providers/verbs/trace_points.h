// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "common/tracing/trace.h"

// The records of verbs and rdma_cm: what they were asked, what they answered, and what they tell of
// their own accord. At DETAIL, about the object that the thread is about (trace::About). Nothing
// here is in the path of a post, or of a completion that succeeded.
namespace udapl::verbs::point {

[[gnu::cold, gnu::noinline]] void call(const char* function, const char* what, int error) noexcept;

// A control call has ended with `error`, an errno value, 0: well. `what`: of what, or to where.
// Returns `error`.
inline int ended(const char* function, const char* what, int error) noexcept {
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    call(function, what, error);
  return error;
}

// The same for those that answer with an object, or null and errno.
template <class T>
T* made(const char* function, T* object) noexcept {
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    call(function, "", object != nullptr ? 0 : errno);
  return object;
}

// A post that was refused with `error`; the answer of post_error().
[[nodiscard, gnu::cold, gnu::noinline]] DAT_RETURN refused(const char* function,
                                                           int error) noexcept;

// "ENOMEM" of 12 or -12; "ok" of 0. Never null.
[[nodiscard]] const char* name_of_errno(int error) noexcept;

// An asynchronous event. Call where it is handled.
void event(ibv_event_type type) noexcept;

// A completion with an error. `ep`: whose queue it was in.
void failed_work(const ibv_wc& work, const void* ep) noexcept;

}  // namespace udapl::verbs::point
