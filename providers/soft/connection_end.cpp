// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connection: how a connection ends, and its timer.
#include "common/tracing/trace.h"
#include "providers/soft/connection.h"
#include "providers/soft/cq.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace udapl::soft {

using transport::BreakCause;
using transport::BreakReason;

namespace {

constexpr int kMaxKicks = 5;  // docs/semantics.md#iwarp-peers
constexpr auto kCloseLimit = std::chrono::milliseconds(2000);
constexpr auto kTerminateLimit = std::chrono::milliseconds(250);
constexpr int kDrainLooks = 4;  // checks within the time limit of a drain
constexpr Clock::duration kDeliveryLook = std::chrono::milliseconds(250);

}  // namespace

void Connection::disconnect(transport::DisconnectMode mode) noexcept {
  std::unique_ptr<Handshake> aborted;  // destroyed without the lock
  const QpGuard guard(lock_);
  if (mode == transport::DisconnectMode::kGraceful) {
    if (intake_.peer_closed()) apply(Event::kPeerEnded);
    if (!apply(Event::kDrain)) return;
    if (timer_.phase() == Timing::kNothing) watch_drain();  // otherwise kKick starts it later
    queue_.transmit(Queue::kPassBudget);
    settle();
    return;
  }
  report_.cancel_outcome();
  aborted = std::move(handshake_);
  apply(Event::kAbort);
}

Status Connection::reset() {
  {
    const QpGuard guard(lock_);
    if (state_ == State::kIdle) return Status();
    if (!connection_step(state_, Event::kReset).allowed) return failure(DAT_INVALID_STATE);
  }
  // A report of this connection that is still pending must not be made for the next connection.
  report_.drain_outcome();
  open_receive_.close();
  const QpGuard guard(lock_);
  apply(Event::kReset);
  return Status();
}

[[gnu::noinline]] void Connection::settle() noexcept {
  const Fault& fault = shared_.fault;
  if (fault.raised) [[unlikely]] {
    Event event = Event::kLost;
    if (state_ == State::kHalfClosed && link_->undelivered() != 0) event = Event::kLostUndelivered;
    if (fault.terminate)
      event = Event::kReportFault;
    else if (fault.cause.why == BreakReason::kRemoteFault)
      event = Event::kPeerReportedFault;
    break_off(event, fault.cause);
    return;
  }
  if (state_ == State::kDraining && queue_.drained()) [[unlikely]] {
    apply(Event::kDrained);
    watch_drain();
  }
  // Messages of the peer wait for receives. The consumer has disconnected and posts none, so the
  // peer's FIN, which is behind them, would never be read.
  if (state_ == State::kHalfClosed && (intake_.stalled() || intake_.peer_closed())) [[unlikely]]
    apply(Event::kPeerEnded);
}

// An end in the middle of a message is no fault: the peer's consumer has disconnected abruptly.
void Connection::end_of_stream() noexcept {
  if (state_ == State::kAccepting || link_->incoming().torn)
    return shared_.fault.raise(BreakReason::kTransportLost);
  UDAPL_TRACE(kDetail, "QP %p: the peer has closed", static_cast<const void*>(&shared_.qp));
  if (!intake_.waits() || state_ != State::kReady) {
    apply(Event::kPeerEnded);
    return;
  }
  intake_.wait_for_last();
}

// Begins to watch the progress of a drain. The drain continues as long as anything is sent,
// acknowledged or received; when nothing was for the time limit, the connection counts as lost.
// This side cannot know whether a peer whose host acknowledges everything will ever answer a Read.
// Without the limit, a frame whose length was damaged would make both sides wait for ever
// (docs/adr/0017).
void Connection::watch_drain() noexcept {
  moved_ = link_->movement();
  still_ = Clock::duration::zero();
  continue_drain();
}

// In state kHalfClosed, messages that were reported as done may not have reached the peer's host
// yet. The drain goes on until they have. Only then the time limit for the peer's FIN begins.
void Connection::continue_drain() noexcept {
  if (state_ == State::kHalfClosed && link_->undelivered() == 0)
    return timer_.start(Timing::kHalfClosed, kCloseLimit);
  if (state_ == State::kHalfClosed || drain_limit_ != Clock::duration::zero())
    timer_.start(Timing::kDrain, drain_look());
}

// Returns the time until the next check of the drain.
Clock::duration Connection::drain_look() const noexcept {
  const Clock::duration part = drain_limit_ / kDrainLooks;
  if (state_ == State::kDraining) return part;
  return drain_limit_ == Clock::duration::zero() ? kDeliveryLook : std::min(kDeliveryLook, part);
}

// Checks the progress of the drain. Returns true if there was none for the time limit.
bool Connection::drain_stands_still() noexcept {
  const Link::Movement now = link_->movement();
  still_ = now == moved_ ? still_ + drain_look() : Clock::duration::zero();
  moved_ = now;
  return drain_limit_ != Clock::duration::zero() && still_ >= drain_limit_;
}

void Connection::start_terminate() noexcept {
  const Fault& fault = shared_.fault;
  UDAPL_TRACE(kNormal, "QP %p: sends Terminate: %s", static_cast<const void*>(&shared_.qp),
              iwarp::name(fault.message.code));
  if (iwarp::is_protection(fault.message.code) && fault.cause.why == BreakReason::kProtocol &&
      !shared_.refused_as_late)
    connector_.access_violation(endpoints_.remote);
  intake_.stop_waiting();
  queue_.unpin();
  link_->begin_terminate(fault.message);
  timer_.start(Timing::kTerminate, kTerminateLimit);
  continue_terminate();
}

void Connection::continue_terminate() noexcept {
  for (;;) {
    if (!queue_.pin_unsent()) return break_off(Event::kFaultUnreportable, shared_.fault.cause);
    link_->build(~std::size_t{0});
    if (link_->all_sent()) break;
    const Link::Flushed flushed = link_->flush();
    queue_.unpin();
    if (flushed == Link::Flushed::kBlocked)
      return link_->want(~0U, link_->all_handed() ? 0U : Link::kRoom);
    if (flushed != Link::Flushed::kDone)
      return break_off(Event::kFaultUnreportable, shared_.fault.cause);
  }
  break_off(Event::kFaultReported, shared_.fault.cause);
}

// Ends, or begins to end, a connection for a reason other than a disconnect by the consumer.
// `cause` is passed by value because apply() may clear the fault.
void Connection::break_off(Event event, BreakCause cause) noexcept {
  const ConnectionStep step = connection_step(state_, event);
  if (step.next == State::kError && step.allowed) {
    UDAPL_TRACE(kNormal, "QP %p: connection broken: %s%s%s", static_cast<const void*>(&shared_.qp),
                text_of(cause.why), *cause.detail != '\0' ? ": " : "", cause.detail);
    if (cause.why == BreakReason::kTransportLost) queue_.blame_transport();
    report_.set_cause(cause);
  }
  apply(event);
}

bool Connection::prepare_end() noexcept {
  return (!link_->refers() || queue_.pin_unsent()) && link_->prepare_end();
}

// Completes all work on the CQs, closes the link and removes it. Makes no report.
void Connection::finish(Close how) noexcept {
  shared_.fault = Fault{};
  shared_.fault.over = true;
  timer_.stop();
  open_receive_.cancel();
  intake_.stop();
  if (link_ != nullptr) {  // must precede queue_.stop(), which completes the requests
    link_->recall(how);
    queue_.collect_last();
    if (how == Close::kGently && !prepare_end()) how = Close::kReset;
  }
  queue_.stop();
  if (link_ == nullptr) return;
  shared_.link = nullptr;
  link_->close(how);
  link_.reset();
}

// ---- time ---------------------------------------------------------------------------------------

void Connection::on_timer() noexcept {
  const trace::About about(shared_.context);
  const QpGuard guard(lock_);
  switch (timer_.take_due()) {
    case Timing::kNothing:  // a call for a phase that has ended meanwhile
      return;
    case Timing::kFirstMessage:
      catch_up();
      if (state_ != State::kAccepting) return;
      UDAPL_TRACE(kNormal, "QP %p: the peer's first message did not arrive in time",
                  static_cast<const void*>(&shared_.qp));
      return break_off(Event::kLost,
                       {BreakReason::kTransportLost, "its first message did not arrive in time"});
    case Timing::kGrace:  // no RTR message: the peer may be waiting for our first message
      if (link_->unacknowledged() != 0) return timer_.start(Timing::kGrace, kGracePeriod);
      established(Event::kFirstMessage);
      break;
    case Timing::kKick:  // wakes kernel siw: docs/semantics.md#iwarp-peers
      if (link_->incoming().frames != 0 || link_->incoming().staged != 0 || kicks_ == kMaxKicks) {
        if (state_ == State::kDraining) watch_drain();
        return;
      }
      ++kicks_;
      queue_.add_control(Queue::kKickWrite);
      timer_.start(Timing::kKick, kFirstKick * (1 << kicks_));
      queue_.transmit(Queue::kPassBudget);
      break;
    case Timing::kDrain:
      if (!drain_stands_still()) return continue_drain();
      UDAPL_TRACE(kNormal, "QP %p: no progress while draining",
                  static_cast<const void*>(&shared_.qp));
      return break_off(Event::kLostUndelivered,
                       {BreakReason::kTransportLost, "no progress while draining"});
    case Timing::kHalfClosed:  // the peer's host has everything, the peer has not closed
      catch_up();
      if (state_ != State::kHalfClosed) return;
      apply(Event::kPeerEnded);
      return;
    case Timing::kTerminate:
      return break_off(Event::kFaultUnreportable, shared_.fault.cause);
  }
  settle();
}

}  // namespace udapl::soft
