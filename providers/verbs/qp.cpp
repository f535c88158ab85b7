// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/qp.h"

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"

#include <utility>

namespace udapl::verbs {

using transport::QpInit;
using transport::WorkFlags;
using transport::WorkId;

namespace {

// Returns whether a queue created for `a` also fits `b`.
bool same_queue(const QpInit& a, const QpInit& b) noexcept {
  return a.pd == b.pd && a.recv_cq == b.recv_cq && a.request_cq == b.request_cq &&
         a.max_recv == b.max_recv && a.max_request == b.max_request &&
         a.max_recv_segments == b.max_recv_segments &&
         a.max_request_segments == b.max_request_segments;
}

}  // namespace

Result<std::unique_ptr<transport::Qp>> Qp::create(Adapter& adapter, const QpInit& init) {
  auto qp = std::make_unique<Qp>(adapter, init);
  Result<QpHandle> made = create_qp(adapter, *qp, init);
  if (!made.ok()) return made.status();
  QpHandle none;
  {
    const QpGuard guard(qp->lock_);
    qp->queue_.exchange(*std::move(made), init, &none);
  }
  return std::unique_ptr<transport::Qp>(std::move(qp));
}

Qp::Qp(Adapter& adapter, const QpInit& init)
    : shared_(*this, adapter, init),
      queue_(shared_, init, Call::to<&Connection::handle_reports>(&connection_)),
      connection_(shared_, lock_, queue_) {}

Qp::~Qp() {
  connection_.disconnect(transport::DisconnectMode::kAbrupt);
  QpHandle last;
  QpInit init;
  {
    const QpGuard guard(lock_);
    connection_.stop_timer();
    last = queue_.take();
    init = shared_.init;
  }
  queue_.retire(std::move(last), init);
  connection_.shut_down();
}

// ---- a new ibv_qp ------------------------------------------------------------------------------

Status Qp::modify(const QpInit& init) {
  QpInit before;
  {
    const QpGuard guard(lock_);
    if (!connection_.idle()) return failure(DAT_INVALID_STATE);
    before = shared_.init;
    if (same_queue(before, init)) {
      queue_.change_notifications(init);
      shared_.init = init;
      return Status();
    }
  }
  if (queue_.held() != 0) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_STATE),
                  "%d receives are posted, and verbs would lose them", queue_.held());
    return failure(DAT_INVALID_STATE);
  }
  Result<QpHandle> fresh = create_qp(shared_.adapter, *this, init);
  if (!fresh.ok()) return fresh.status();
  QpHandle former;
  {
    const QpGuard guard(lock_);
    queue_.exchange(*std::move(fresh), init, &former);
  }
  queue_.retire(std::move(former), before);
  return Status();
}

Status Qp::reset() {
  QpInit init;
  {
    const QpGuard guard(lock_);
    if (connection_.idle()) return Status();
    if (!connection_.may_reset()) return failure(DAT_INVALID_STATE);
    init = shared_.init;
  }
  Result<QpHandle> fresh = create_qp(shared_.adapter, *this, init);
  if (!fresh.ok()) return fresh.status();
  connection_.drain_calls();
  QpHandle former;
  {
    const QpGuard guard(lock_);
    connection_.stop_timer();
    queue_.exchange(*std::move(fresh), init, &former);
  }
  // Completions and events of the former ibv_qp find the connection still in state kError, in which
  // they have no effect.
  queue_.retire(std::move(former), init);
  const QpGuard guard(lock_);
  connection_.become_idle();
  return Status();
}

// ---- the rest ----------------------------------------------------------------------------------

DAT_RETURN Qp::post_bind(WorkId id, const transport::BindRequest& bind, WorkFlags flags,
                         DAT_RMR_CONTEXT* context) noexcept {
  return queue_.post_bind(id, bind, flags, context);
}

bool Qp::failed() const noexcept { return queue_.in_error(); }

// Devices flush asynchronously: rdma_rxe, for example, in a tasklet.
bool Qp::flushing() const noexcept { return !shared_.adapter.dead(); }

transport::Endpoints Qp::endpoints() const noexcept {
  const QpGuard guard(lock_);
  return connection_.endpoints();
}

// Messages of a connection complete in the order in which they take buffers, so span and number are
// equal.
transport::ReceiveCounts Qp::receive_counts() const noexcept {
  const int now = queue_.held();
  return {now, now};
}

void Qp::set_watermarks(int soft, int hard) noexcept {
  const QpGuard guard(lock_);
  queue_.set_watermarks(soft, hard);
}

}  // namespace udapl::verbs
