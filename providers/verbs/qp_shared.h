// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp.h"
#include "dapl/transport/qp_lock.h"
#include "dapl/transport/sink.h"

// What the parts of a Qp have in common: its lock, whom they work for, what it was made with.
namespace udapl::verbs {

class Adapter;
class Qp;

// Posts do without the lock.
using transport::qp_locked;
using transport::QpGuard;
using transport::QpLock;

struct QpShared {
  QpShared(Qp& owner, Adapter& of, const transport::QpInit& given) noexcept
      : qp(owner), adapter(of), sink(*given.sink), init(given) {}

  Qp& qp;  // whom traces and the device's events name; no part calls it
  Adapter& adapter;
  transport::ConnectionSink& sink;
  transport::QpInit init UDAPL_GUARDED_BY(qp_locked);
};

}  // namespace udapl::verbs
