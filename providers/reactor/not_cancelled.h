// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <pthread.h>

namespace udapl {

// While it lives pthread_cancel does not end the calling thread, which holds a role or a lock that
// others need: the cancellation waits for the next point after it.
class NotCancelled {
 public:
  NotCancelled() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { ::pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace udapl
