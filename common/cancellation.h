// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <pthread.h>

namespace udapl {

// Makes a blocking call a cancellation point (pthread_cancel). Cancellation is deferred while the
// call holds locks, roles or objects, and takes effect in begin() and check(), where the call is
// ready to be unwound. The unwinding passes through the callers, so none of them may be noexcept;
// for the same reason this class has no destructor. Used by one thread, in one function.
class CancellationPoint {
 public:
  // Acts on a pending cancellation, then defers further ones.
  void begin() {
    ::pthread_testcancel();
    hold();
  }
  // Acts on a cancellation that was requested meanwhile. The call must hold no locks, roles or
  // objects.
  void check() {
    ::pthread_setcancelstate(state_, nullptr);
    ::pthread_testcancel();
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  }
  // Restores the caller's settings. A pending cancellation takes effect at the caller's next
  // cancellation point, or here if the caller permits it at any time.
  void end() {
    ::pthread_setcancelstate(state_, nullptr);
    ::pthread_setcanceltype(type_, nullptr);
  }
  // Whether the caller may be cancelled at any time (PTHREAD_CANCEL_ASYNCHRONOUS).
  [[nodiscard]] bool is_asynchronous() const noexcept {
    return state_ == PTHREAD_CANCEL_ENABLE && type_ == PTHREAD_CANCEL_ASYNCHRONOUS;
  }

 private:
  void hold() noexcept {
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_);
    ::pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type_);
  }

  int state_ = PTHREAD_CANCEL_ENABLE;
  int type_ = PTHREAD_CANCEL_DEFERRED;
};

}  // namespace udapl
