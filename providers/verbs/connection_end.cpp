// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connection: the end of a connection, and the events that cause it.
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/connection.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace udapl::verbs {

using transport::BreakReason;

namespace {

// How often the CQ of a draining QP is scanned, in case its consumer does not poll. Each pause is a
// quarter longer than the one before, so draining takes at most about a quarter longer than needed.
constexpr auto kFirstLook = std::chrono::microseconds(20);
constexpr auto kSlowestLook = std::chrono::milliseconds(64);
constexpr int kSlowdown = 4;
// How long a connection whose work was flushed may take to end in order.
constexpr auto kEndAfterFlush = std::chrono::milliseconds(100);
// How long to wait for the event that a QP in error has taken its last buffer from an SRQ: not all
// devices report it.
constexpr auto kSrqReleaseLimit = std::chrono::milliseconds(200);
// The pauses between flushes of a QP in error, as long as receives are outstanding.
constexpr auto kFirstFlush = std::chrono::milliseconds(4);
constexpr auto kLastFlush = std::chrono::seconds(2);
constexpr int kFlushSlowdown = 4;

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

void Connection::disconnect(transport::DisconnectMode mode) noexcept {
  std::unique_ptr<CmConnection> connection;  // destroyed without the lock
  {
    const QpGuard guard(lock_);
    if (mode == transport::DisconnectMode::kGraceful) {
      if (state_ != State::kReady) return;
      apply(Event::kDrain);
      drain_pause_ = kFirstLook;
      drain_left_ = shared_.sink.requests_held();
      drain_still_ = {};
      queue_.post_marker();
      return timer_.start(Timing::kDrain, drain_pause_);
    }
    report_.cancel_outcome();
    const ConnectionStep step = connection_step(state_, Event::kAbort);
    if (!step.allowed) return;
    enter_error();
    connection = std::move(cm_);
    if (step.action == ConnectionAction::kDrop) return;
  }
  connection->disconnect(false);
}

// ---- the end -----------------------------------------------------------------------------------

void Connection::enter_error() noexcept {
  const bool releases = !queue_.own_receives() && connected();
  set_state(State::kError);
  queue_.enter_error();
  if (releases) return timer_.start(Timing::kSrqRelease, kSrqReleaseLimit);
  timer_.stop();
  if (!queue_.own_receives()) return;
  flush_pause_ = kFirstFlush;
  timer_.start(Timing::kFlush, flush_pause_);
}

// A thread may have checked the state of the queue before the flush, have been preempted, and have
// posted its receive after the flush.
void Connection::flush_again() noexcept {
  if (queue_.held() == 0) return;
  queue_.flush();
  flush_pause_ *= kFlushSlowdown;
  if (flush_pause_ <= kLastFlush) timer_.start(Timing::kFlush, flush_pause_);
}

void Connection::apply(Event event) noexcept {
  const ConnectionStep step = connection_step(state_, event);
  if (!step.allowed) return;
  if (step.next == State::kError)
    enter_error();
  else
    set_state(step.next);
  if (step.action == ConnectionAction::kDisconnect || step.action == ConnectionAction::kAnswer)
    cm_->disconnect(step.action == ConnectionAction::kAnswer);
  if (step.action != ConnectionAction::kNone) cm_.reset();
  report_.post(step.call);
}

void Connection::break_connection(transport::BreakCause cause) noexcept {
  report_.set_cause(cause);
  apply(Event::kBroken);
}

// The completion that tells why the connection ended may be in a CQ that no thread polls. The scan
// finds it before the Connection handles the peer's message, which is only the consequence.
void Connection::look_for_failure() noexcept {
  Cq* request_cq = nullptr;
  Cq* recv_cq = nullptr;
  {
    const QpGuard guard(lock_);
    if (!connected()) return;
    request_cq = &queue_.request_cq();
    recv_cq = &queue_.recv_cq();
  }
  request_cq->scan();
  if (recv_cq != request_cq) recv_cq->scan();
}

// ---- graceful disconnect -----------------------------------------------------------------------

// Adds up the pauses between scans instead of reading the clock, because a process that was stopped
// has not scanned meanwhile.
bool Connection::drain_is_stuck(int left) noexcept {
  const auto limit = std::chrono::milliseconds(shared_.adapter.environment().drain_timeout_ms);
  drain_still_ = left < drain_left_ ? Clock::duration::zero() : drain_still_ + drain_pause_;
  drain_left_ = std::min(drain_left_, left);
  return limit != limit.zero() && drain_still_ >= limit;
}

// Scans the CQ during a graceful disconnect, because the consumer may not poll it.
void Connection::look_for_drain() noexcept {
  Cq* cq = nullptr;
  std::uint32_t number = 0;
  int left = 0;
  {
    const QpGuard guard(lock_);
    if (state_ != State::kDraining) return;
    if (!queue_.marked()) queue_.post_marker();
    cq = &queue_.request_cq();
    number = queue_.number();
    // Counted before the scan: if the consumer polls meanwhile, the number is too high, never too
    // low.
    left = shared_.sink.requests_held();
  }
  left -= cq->scan_for(number);
  const QpGuard guard(lock_);
  const trace::About about(shared_.init.context);
  if (state_ != State::kDraining || queue_.findings().drained())
    return;  // if it is drained, a report follows
  if (drain_is_stuck(left)) {
    UDAPL_TRACE(kNormal, "QP %p: no request completed for %u ms: the disconnect becomes abrupt",
                static_cast<const void*>(&shared_.qp),
                shared_.adapter.environment().drain_timeout_ms);
    return apply(Event::kTooLate);
  }
  drain_pause_ = std::min<Clock::duration>(drain_pause_ + drain_pause_ / kSlowdown, kSlowestLook);
  timer_.start(Timing::kDrain, drain_pause_);
}

// ---- reports and events ------------------------------------------------------------------------

void Connection::handle_failure(ibv_wc_status status, Event event) noexcept {
  UDAPL_TRACE(kNormal, "QP %p: work failed: %s (%s)", static_cast<const void*>(&shared_.qp),
              ::ibv_wc_status_str(status), name_of(status));
  report_.set_cause({reason_of(status), ::ibv_wc_status_str(status)});
  apply(event);
}

// On iWARP the kernel first flushes the QP when the peer ends the connection, and then reports the
// end. Returns whether the failure may be such a flush; then waits a while for that report.
bool Connection::may_have_ended(ibv_wc_status failed) noexcept {
  if (failed != IBV_WC_WR_FLUSH_ERR || state_ != State::kReady || !shared_.adapter.device().iwarp())
    return false;
  if (timer_.phase() != Timing::kEnd) timer_.start(Timing::kEnd, kEndAfterFlush);
  return true;
}

void Connection::handle_reports() noexcept {
  const QpGuard guard(lock_);
  const trace::About about(shared_.init.context);
  if (!connected()) return check_watermarks();
  const std::optional<ibv_wc_status> failed = queue_.findings().failure();
  if (failed.has_value() && !may_have_ended(*failed))
    return handle_failure(*failed, Event::kBroken);
  if (state_ == State::kDraining && queue_.findings().drained()) return apply(Event::kDrained);
  check_watermarks();
}

void Connection::check_watermarks() noexcept {
  const Watermarks::Exceeded exceeded = queue_.check_watermarks();
  if (exceeded.soft) report_.post(SinkCall::kSoftWatermark);
  if (exceeded.hard && connected()) break_connection(BreakReason::kWatermark);
}

void Connection::on_async_event(ibv_event_type event) noexcept {
  const QpGuard guard(lock_);
  const trace::About about(shared_.init.context);
  point::event(event);
  static constinit trace::RateLimit limit;
  switch (event) {
    case IBV_EVENT_COMM_EST:  // the peer's first message has overtaken its last handshake message
      if (state_ == State::kAccepting) cm_->first_message_came();
      return;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      if (timer_.phase() != Timing::kSrqRelease) return;
      timer_.stop();
      return report_.post(SinkCall::kSrqReleased);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      UDAPL_TRACE_LIMITED(limit, kError, "QP %p: %s", static_cast<const void*>(&shared_.qp),
                          name_of(event));
      report_.post(SinkCall::kAsyncError);
      if (connected())
        break_connection(
            {event == IBV_EVENT_QP_FATAL ? BreakReason::kLocalFault : BreakReason::kRemoteFault,
             name_of(event)});
      return;
    default:
      UDAPL_TRACE(kNormal, "QP %p: %s", static_cast<const void*>(&shared_.qp), name_of(event));
  }
}

}  // namespace udapl::verbs
