// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp_lock.h"
#include "dapl/transport/sink.h"
#include "providers/soft/iwarp/terminate.h"
#include "providers/soft/link.h"
#include "providers/soft/mr_table.h"

// State shared by the parts of a Qp: its lock, the fault that ends its connection, its link.
namespace udapl::soft {

class Qp;

using transport::qp_locked;
using transport::QpGuard;
using transport::QpLock;

// The reason why the connection must end. Any part of the Qp may raise a fault; only the first one
// counts. Connection::settle() handles it at the end of the entry point.
struct Fault {
  bool raised = false;
  bool terminate = false;  // send `message` to the peer; otherwise close at once
  bool over = false;       // the connection has ended: raise() has no effect
  transport::BreakCause cause;
  iwarp::Terminate message;

  void raise(transport::BreakCause why) noexcept {
    if (raised || over) return;
    raised = true;
    terminate = false;
    cause = why;
  }
  void raise(transport::BreakReason why, const iwarp::Terminate& report) noexcept {
    if (raised || over) return;
    raise({why, iwarp::name(report.code)});
    terminate = true;
    message = report;
  }
};

struct QpShared {
  QpShared(const Qp& owner, MrTable& table, ScopeId scope, void* user, ScopeId zone) noexcept
      : qp(owner), memory(table), id(scope), context(user), pd(zone) {}

  // Called when a completion was lost: ends the connection, because the consumer cannot learn which
  // work was done.
  void lose_completion() noexcept UDAPL_REQUIRES(qp_locked) {
    const iwarp::Terminate message =
        iwarp::make_terminate(iwarp::TerminateCode::kRdmapLocalCatastrophic);
    fault.raise(transport::BreakReason::kLocalFault, message);
    if (link != nullptr) link->fail(message);  // deliver nothing more
  }

  const Qp& qp;  // identifies the Qp in completions and traces; never called
  MrTable& memory;
  const ScopeId id;
  void* const context;
  ScopeId pd UDAPL_GUARDED_BY(qp_locked);
  Fault fault UDAPL_GUARDED_BY(qp_locked);
  Link* link UDAPL_GUARDED_BY(qp_locked) = nullptr;  // owned by the Connection
  // The reason why an Inbound call of the queue has refused input from the peer.
  transport::BreakReason refused_why UDAPL_GUARDED_BY(qp_locked) =
      transport::BreakReason::kProtocol;
  // Whether the refused access named an STag that was valid once: then the peer is late, and has
  // not guessed an STag.
  bool refused_as_late UDAPL_GUARDED_BY(qp_locked) = false;
};

}  // namespace udapl::soft
