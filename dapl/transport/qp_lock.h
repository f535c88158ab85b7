// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"

// For transports whose QPs are made of parts.
namespace udapl::transport {

// The parts of a Qp (queue, connection, link) have no locks of their own: their set-up and teardown
// run under the lock of the Qp. For Clang's analysis that lock has the same name in all of them,
// `qp_locked`, meaning that the lock of the current Qp is held. No code holds the locks of two Qps.
struct UDAPL_CAPABILITY("lock of the QP") QpLocked {};
inline constinit QpLocked qp_locked;

using QpLock = Mutex;

class UDAPL_SCOPED_CAPABILITY QpGuard {
 public:
  explicit QpGuard(QpLock& lock) UDAPL_ACQUIRE(qp_locked) UDAPL_NO_THREAD_SAFETY_ANALYSIS
      : lock_(lock) {
    lock_.lock();
  }
  ~QpGuard() UDAPL_RELEASE() UDAPL_NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }
  QpGuard(const QpGuard&) = delete;
  QpGuard& operator=(const QpGuard&) = delete;

 private:
  QpLock& lock_;
};

}  // namespace udapl::transport
