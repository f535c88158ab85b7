// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connection: set-up of both sides, and time limits.
#include "providers/verbs/connection.h"
#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"

#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

namespace udapl::verbs {

using transport::BreakReason;
using transport::PrivateData;

namespace {

ConnectionEvent event_of(SetupFailure why) noexcept {
  switch (why) {
    case SetupFailure::kRejected:
      return ConnectionEvent::kRejected;
    case SetupFailure::kRefused:
      return ConnectionEvent::kRefused;
    case SetupFailure::kUnreachable:
      break;
  }
  return ConnectionEvent::kUnreachable;
}

}  // namespace

QpTerms Connection::terms() const noexcept {
  return {&shared_.qp,
          shared_.init.context,
          queue_.number(),
          shared_.init.srq != nullptr,
          shared_.init.max_rdma_read_in,
          shared_.init.max_rdma_read_out};
}

Connection::Connection(QpShared& shared, QpLock& lock, Queue& queue)
    : shared_(shared),
      lock_(lock),
      queue_(queue),
      timer_(shared.adapter.reactor(), Call::to<&Connection::on_timer>(this)),
      report_(shared.adapter.reactor(), shared.sink, lock) {}

void Connection::shut_down() noexcept {
  {
    const QpGuard guard(lock_);
    timer_.stop();
  }
  queue_.close();
  report_.close();
}

// ---- requests of the core ----------------------------------------------------------------------

Status Connection::connect(const transport::ConnectRequest& request) {
  // Declared before the guard, so that it is destroyed without the lock.
  Result<std::unique_ptr<CmConnection>> made = shared_.adapter.connector().prepare(request, *this);
  if (!made.ok()) return made.status();

  const QpGuard guard(lock_);
  if (!connection_step(state_, Event::kConnect).allowed) return failure(DAT_INVALID_STATE);
  if (!report_.reserve()) return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  clear();
  Result<bool> started = (*made)->start(terms());
  if (!started.ok()) return started.status();
  apply(Event::kConnect);
  if (!*started) {
    apply(Event::kUnreachable);
    return Status();
  }
  request_timeout_us_ = request.timeout_us;
  cm_ = *std::move(made);
  endpoints_ = cm_->endpoints();
  if (request.timeout_us != DAT_TIMEOUT_INFINITE)
    timer_.start(Timing::kConnect, std::chrono::microseconds(request.timeout_us));
  return Status();
}

Status Connection::accept(std::unique_ptr<CmConnection>& offered, PrivateData private_data) {
  std::unique_ptr<CmConnection> failed;  // destroyed without the lock
  const QpGuard guard(lock_);
  const trace::About about(shared_.init.context);
  if (!connection_step(state_, Event::kAccept).allowed) return failure(DAT_INVALID_STATE);
  if (!offered->on_our_port(&shared_.qp)) return failure(DAT_INTERNAL_ERROR);
  clear();
  apply(Event::kAccept);
  cm_ = std::move(offered);
  endpoints_ = cm_->endpoints();
  cm_->attach(*this, terms());  // events from now on wait for the lock
  const bool gone = cm_->peer_gone();
  if (!gone && to_ready() && cm_->reply(private_data)) {
    // A limit is needed because a peer that gave up just before its request arrived cannot notify
    // this side, and the kernel would repeat the reply for a minute.
    timer_.start(Timing::kAccept,
                 std::chrono::milliseconds(shared_.adapter.environment().rtu_timeout_ms));
    return Status();
  }
  enter_error();
  report_.post(SinkCall::kAcceptFailed);
  failed = std::move(cm_);
  if (!gone) failed->refuse();
  return Status();
}

// ---- ConnectionEnd: in the driving thread, so the CmConnection may be destroyed under the lock -

// Makes the QP ready before it confirms, which allows the peer to send.
void Connection::on_reply(CmConnection& connection, PrivateData from_peer) noexcept {
  const QpGuard guard(lock_);
  if (&connection != cm_.get() || state_ != State::kConnecting) return;
  report_.keep(from_peer);
  if (to_ready() && connection.confirm()) return established();
  UDAPL_TRACE(kNormal, "QP %p: the connection cannot be completed: %s",
              static_cast<const void*>(&shared_.qp), ErrnoText(errno).c_str());
  connection.refuse();
  apply(Event::kRefused);
}

void Connection::on_established(CmConnection& connection, PrivateData reply) noexcept {
  const QpGuard guard(lock_);
  if (&connection != cm_.get()) return;
  if (state_ == State::kConnecting)
    report_.keep(reply);
  else if (state_ != State::kAccepting)
    return;
  established();
}

void Connection::on_failed(CmConnection& connection, SetupFailure why,
                           PrivateData from_peer) noexcept {
  const QpGuard guard(lock_);
  if (&connection != cm_.get()) return;
  if (state_ == State::kConnecting) report_.keep(from_peer);
  apply(event_of(why));
}

void Connection::on_lost(CmConnection& connection, Loss why) noexcept {
  if (why == Loss::kEndedByPeer) look_for_failure();
  const QpGuard guard(lock_);
  if (&connection != cm_.get()) return;
  const trace::About about(shared_.init.context);
  // On iWARP the kernel has flushed the QP already: a flushed request is not the failure that has
  // ended the connection.
  if (const std::optional<ibv_wc_status> failed = queue_.findings().failure();
      why == Loss::kEndedByPeer && connected() && failed.has_value() &&
      *failed != IBV_WC_WR_FLUSH_ERR)
    return handle_failure(*failed, Event::kPeerBroke);
  const bool drained = queue_.findings().drained();
  if (why == Loss::kEndedByPeer && state_ == State::kDraining && drained)
    return apply(Event::kDrained);  // all requests had completed before the peer ended it
  if (!connected() || why == Loss::kEndedByPeer)
    return apply(why == Loss::kEndedByPeer ? Event::kPeerEnded : Event::kPeerLost);
  // The device has not given up the peer, and will not do so any more. Completions are reported as
  // if it had: the oldest request with the loss of the peer, the others as flushed. The marker is
  // posted behind the requests that are outstanding now, and ends this.
  queue_.findings().set_lost(why == Loss::kPeerLost);
  report_.set_cause(transport::BreakReason::kTransportLost);
  apply(Event::kPeerLost);
  queue_.post_marker();
}

// ---- both --------------------------------------------------------------------------------------

bool Connection::change_state(ibv_qp_state state) noexcept {
  ibv_qp_attr attr{};
  int mask = 0;
  return cm_->attributes(state, attr, mask) && queue_.change_state(state, attr, mask);
}

bool Connection::to_ready() noexcept {
  return change_state(IBV_QPS_INIT) && change_state(IBV_QPS_RTR) && change_state(IBV_QPS_RTS);
}

void Connection::established() noexcept {
  timer_.stop();
  // On iWARP the kernel has made the QP ready, and does not report the negotiated read depth.
  if (shared_.adapter.device().iwarp()) queue_.set_serves_reads(shared_.init.max_rdma_read_out > 0);
  endpoints_ = cm_->endpoints();
  apply(Event::kEstablished);
  // A request may have failed before, or a watermark may already be exceeded.
  queue_.report();
}

// ---- states and time ---------------------------------------------------------------------------

void Connection::clear() noexcept {
  report_.forget();
  queue_.clear();
}

void Connection::become_idle() noexcept {
  clear();
  endpoints_ = {};
  queue_.leave_error();
  set_state(State::kIdle);
}

void Connection::set_state(State next) noexcept {
  UDAPL_TRACE(kDetail, "QP %p: %s -> %s", static_cast<const void*>(&shared_.qp), name_of(state_),
              name_of(next));
  state_ = next;
}

void Connection::on_timer() noexcept {
  {
    const QpGuard guard(lock_);
    const trace::About about(shared_.init.context);
    const Timing timing = timer_.take_due();
    if (timing == Timing::kNothing) return;  // the timer was stopped after this call had begun
    if (timing == Timing::kConnect) {
      UDAPL_TRACE(kNormal, "QP %p: no answer within %u us", static_cast<const void*>(&shared_.qp),
                  request_timeout_us_);
      return apply(Event::kTooLate);
    }
    if (timing == Timing::kAccept) {
      UDAPL_TRACE(kNormal, "QP %p: accepted, but the peer did not confirm within %u ms",
                  static_cast<const void*>(&shared_.qp),
                  shared_.adapter.environment().rtu_timeout_ms);
      return apply(Event::kTooLate);
    }
    if (timing == Timing::kEnd) return handle_failure(IBV_WC_WR_FLUSH_ERR, Event::kBroken);
    if (timing == Timing::kSrqRelease) return report_.post(SinkCall::kSrqReleased);
    if (timing == Timing::kFlush) return flush_again();
  }
  look_for_drain();
}

}  // namespace udapl::verbs
