// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <pthread.h>

namespace udapl {

// Defers pthread_cancel of the calling thread to the first cancellation point after this object's
// lifetime. Used around system calls: a thread that holds a lock or a role which other threads need
// must not end there, and one that is inside a noexcept function would end the program.
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
