// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/cancellation.h"
#include "common/exiting_sleep.h"
#include "common/wait_word.h"
#include "dapl/objects/boundary.h"

#include <dat/udat.h>

#include <algorithm>
#include <chrono>

namespace udapl::dapl {

// Returned by waits to wait_cancellably() only: call again. Not a DAT code.
inline constexpr DAT_RETURN kWaitAgain = 0x7FFFFFFF;

// The body of dat_evd_wait and dat_cno_wait: calls `wait(deadline)` until it has a result, then
// `end(result)`. The call is a cancellation point, since programs end waiting threads with
// pthread_cancel. That does not wake a thread that sleeps here: the thread notices it when
// Adapter::block() returns after some seconds, or, if its cancellation type is asynchronous, within
// kCancellationDelay. Not noexcept: a cancelled thread is unwound from here, without end(), and so
// is a thread that a signal handler ends by pthread_exit while it sleeps (docs/adr/0088). The
// thread may stay registered as a waiter between two calls of `wait`; a destructor in the caller
// then has to deregister it.
template <class Wait, class End>
[[nodiscard]] DAT_RETURN wait_cancellably(DAT_TIMEOUT timeout, Wait wait, End end) {
  constexpr auto kCancellationDelay = std::chrono::milliseconds(100);
  CancellationPoint point;
  point.begin();
  const Deadline deadline = deadline_after(timeout);
  while (true) {
    Deadline until = deadline;
    if (point.is_asynchronous()) [[unlikely]] {
      const Clock::time_point soon = Clock::now() + kCancellationDelay;
      until = deadline ? std::min(*deadline, soon) : soon;
    }
    auto attempt = [&] { return boundary([&] { return wait(until); }); };
    using Attempt = decltype(attempt);
    const DAT_RETURN code = call_that_sleeps(
        [](void* context) -> unsigned { return (*static_cast<Attempt*>(context))(); }, &attempt);
    const DAT_RETURN type = DAT_GET_TYPE(code);
    const bool timed_out = type == DAT_TIMEOUT_EXPIRED || type == DAT_QUEUE_EMPTY;
    if (code != kWaitAgain && !(timed_out && until != deadline)) {
      end(code);
      point.end();
      return code;
    }
    point.check();
  }
}

}  // namespace udapl::dapl
