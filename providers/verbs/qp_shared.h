// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "dapl/transport/qp.h"
#include "dapl/transport/sink.h"

// What the parts of a Qp have in common: its lock, whom they work for, what it was made with.
namespace udapl::verbs {

class Adapter;
class Qp;

// The parts of a Qp (queue, connection) work under the lock of the Qp, as far as it is about set-up
// and end; posts do without. For Clang's analysis it has the same name in all of them, `qp_locked`:
// the lock of the Qp at hand is held. No code holds the locks of two Qps.
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

struct QpShared {
  QpShared(Qp& owner, Adapter& of, const transport::QpInit& given) noexcept
      : qp(owner), adapter(of), sink(*given.sink), init(given) {}

  Qp& qp;  // whom traces and the device's events name; no part calls it
  Adapter& adapter;
  transport::ConnectionSink& sink;
  transport::QpInit init UDAPL_GUARDED_BY(qp_locked);
};

}  // namespace udapl::verbs
