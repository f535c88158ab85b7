// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp.h"
#include "dapl/transport/qp_lock.h"
#include "dapl/transport/sink.h"

// Shared by the parts of a Qp: its lock, its owner, and the parameters it was made with.
namespace udapl::verbs {

class Adapter;
class Qp;

// Posts do not acquire the lock.
using transport::qp_locked;
using transport::QpGuard;
using transport::QpLock;

struct QpShared {
  QpShared(Qp& owner, Adapter& of, const transport::QpInit& given) noexcept
      : qp(owner), adapter(of), sink(*given.sink), init(given) {}

  Qp& qp;  // identifies the QP in traces and device events; no part calls it
  Adapter& adapter;
  transport::ConnectionSink& sink;
  transport::QpInit init UDAPL_GUARDED_BY(qp_locked);
};

}  // namespace udapl::verbs
