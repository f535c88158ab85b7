// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: how a connection ends, and what of it is noticed where.
#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace udapl::verbs {

using transport::BreakReason;

namespace {

// How often a draining QP's CQ is looked at, when its consumer does not. Each pause is a quarter
// longer than the one before: so much later than it could the connection ends at most.
constexpr auto kFirstLook = std::chrono::microseconds(20);
constexpr auto kSlowestLook = std::chrono::milliseconds(64);
constexpr int kSlowdown = 4;
// Not all devices say when a QP in error has taken its last buffer from an SRQ.
constexpr auto kSrqReleaseLimit = std::chrono::milliseconds(200);

BreakReason reason_of(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return BreakReason::kRemoteFault;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
      return BreakReason::kTransportLost;
    case IBV_WC_BAD_RESP_ERR:
      return BreakReason::kProtocol;
    default:
      return BreakReason::kLocalFault;
  }
}

}  // namespace

void Qp::disconnect(transport::DisconnectMode mode) noexcept {
  std::unique_ptr<Connection> connection;  // which goes without the lock
  {
    const ScopedLock lock(lock_);
    if (mode == transport::DisconnectMode::kGraceful) {
      if (state_ != QpState::kReady) return;
      take(QpEvent::kDrain);
      drain_pause_ = kFirstLook;
      post_marker();
      return start_timer(Timing::kDrain, drain_pause_);
    }
    gate_.cancel(kConnectionCalls);
    const QpStep step = verbs::step(state_, QpEvent::kAbort);
    if (!step.allowed) return;
    enter_error();
    connection = std::move(connection_);
    if (step.ending == Ending::kDrop) return;
  }
  connection->disconnect(false);
}

// ---- the end -----------------------------------------------------------------------------------

// Everything that is posted, and will be, completes as flushed. Tells nobody.
void Qp::enter_error() noexcept {
  const bool releases = !own_receives_ && connected();
  in_error_.store(true, std::memory_order_release);
  update_receives();
  set_state(QpState::kError);
  flush();
  start_timer(releases ? Timing::kSrqRelease : Timing::kNothing, kSrqReleaseLimit);
}

// Also when the QP is in error already: some devices do not flush receives that are posted then,
// unless told to.
void Qp::flush() noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  const int error = point::ended("ibv_modify_qp", "ERR", ::ibv_modify_qp(qp_, &attr, IBV_QP_STATE));
  static constinit trace::RateLimit limit;
  if (error != 0 && !adapter_.dead())
    UDAPL_TRACE_LIMITED(limit, kError, "QP %p: ibv_modify_qp to ERR: %s", static_cast<void*>(this),
                        ErrnoText(error).c_str());
}

// Devices do it in their own time: rdma_rxe, for one, in a tasklet.
bool Qp::flushing() const noexcept { return !adapter_.dead(); }

void Qp::take(QpEvent event) noexcept {
  const QpStep step = verbs::step(state_, event);
  if (!step.allowed) return;
  if (step.next == QpState::kError)
    enter_error();
  else
    set_state(step.next);
  if (step.ending == Ending::kDisconnect || step.ending == Ending::kAnswer)
    connection_->disconnect(step.ending == Ending::kAnswer);
  if (step.ending != Ending::kNone) connection_.reset();
  if (step.call != kNoCall) gate_.post(step.call);
}

void Qp::break_connection(transport::BreakCause cause) noexcept {
  broken_cause_ = cause;
  take(QpEvent::kBroken);
}

// ---- graceful disconnect -----------------------------------------------------------------------

// A write of nothing behind the last request: when it completes, all before it have
// (docs/adr/0010).
void Qp::post_marker() noexcept {
  ibv_send_wr marker{};
  marker.wr_id = kInternalWork;
  marker.opcode = IBV_WR_RDMA_WRITE;
  // The fence: some devices complete a write before a read that was posted first.
  marker.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  ibv_send_wr* bad = nullptr;
  marked_ = ::ibv_post_send(qp_, &marker, &bad) == 0;  // else the queue is full now
}

void Qp::on_marker() noexcept {
  drained_.store(true, std::memory_order_release);
  reported_failures_.post();
}

// For a consumer that does not poll.
void Qp::look_for_drain() noexcept {
  Cq* cq = nullptr;
  {
    const ScopedLock lock(lock_);
    if (state_ != QpState::kDraining) return;
    if (!marked_) post_marker();
    cq = request_cq_;
    drain_pause_ = std::min<Clock::duration>(drain_pause_ + drain_pause_ / kSlowdown, kSlowestLook);
    start_timer(Timing::kDrain, drain_pause_);
  }
  cq->scan();
}

// ---- what is noticed ---------------------------------------------------------------------------

ibv_wc_status Qp::meaning_of(std::uint64_t wr_id, ibv_wc_status status) const noexcept {
  const bool unserved = status != IBV_WC_WR_FLUSH_ERR && wr_id != kInternalWork &&
                        wr_id == unserved_.load(std::memory_order_acquire);
  return unserved ? IBV_WC_REM_OP_ERR : status;
}

void Qp::on_failed_work(std::uint64_t wr_id, ibv_wc_status status) noexcept {
  if (is_bind(wr_id)) bind_failed(wr_id);
  if (wr_id == kInternalWork) lost_.store(false, std::memory_order_release);
  if (in_error_.load(std::memory_order_relaxed)) return;
  unsigned none = kNoTrouble;
  if (failed_status_.compare_exchange_strong(none, status, std::memory_order_acq_rel))
    reported_failures_.post();
}

// What polls and posts found, by the driver.
void Qp::handle_reported_failures() noexcept {
  const ScopedLock lock(lock_);
  const trace::About about(init_.context);
  if (!connected()) return check_watermarks();
  const unsigned failed = failed_status_.load(std::memory_order_acquire);
  if (failed != kNoTrouble) {
    const auto status = static_cast<ibv_wc_status>(failed);
    UDAPL_TRACE(kNormal, "QP %p: work failed: %s (%s)", static_cast<void*>(this),
                ::ibv_wc_status_str(status), name_of(status));
    return break_connection({reason_of(status), ::ibv_wc_status_str(status)});
  }
  if (state_ == QpState::kDraining && drained_.load(std::memory_order_acquire))
    return take(QpEvent::kDrained);
  check_watermarks();
}

void Qp::check_watermarks() noexcept {
  const int now = held();
  if (soft_mark_ >= 0 && now > soft_mark_) {
    soft_mark_ = -1;
    gate_.post(kSoftWatermark);
  }
  if (hard_mark_ >= 0 && now > hard_mark_ && connected()) break_connection(BreakReason::kWatermark);
  watermarked_.store(soft_mark_ >= 0 || hard_mark_ >= 0, std::memory_order_relaxed);
  update_receives();
}

void Qp::on_cq_overflow() noexcept {
  const ScopedLock lock(lock_);
  if (connected()) break_connection(BreakReason::kLocalFault);
}

void Qp::on_async_event(ibv_event_type event) noexcept {
  const ScopedLock lock(lock_);
  const trace::About about(init_.context);
  point::event(event);
  static constinit trace::RateLimit limit;
  switch (event) {
    case IBV_EVENT_COMM_EST:  // the peer's first message has overtaken its last handshake message
      if (state_ == QpState::kAccepting) connection_->first_message_came();
      return;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      if (timing_ != Timing::kSrqRelease) return;
      start_timer(Timing::kNothing, {});
      return gate_.post(kSrqReleased);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      UDAPL_TRACE_LIMITED(limit, kError, "QP %p: %s", static_cast<void*>(this), name_of(event));
      gate_.post(kAsyncError);
      if (connected())
        break_connection(
            {event == IBV_EVENT_QP_FATAL ? BreakReason::kLocalFault : BreakReason::kRemoteFault,
             name_of(event)});
      return;
    default:
      UDAPL_TRACE(kNormal, "QP %p: %s", static_cast<void*>(this), name_of(event));
  }
}

}  // namespace udapl::verbs
