// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: how a connection ends.
#include "common/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/qp.h"

#include <sys/epoll.h>

#include <chrono>
#include <utility>

namespace udapl::soft {

using iwarp::TerminateCode;
using transport::BreakReason;

namespace {

// soft-transport 1.8, 1.10.
constexpr auto kCloseLimit = std::chrono::milliseconds(2000);
constexpr auto kTerminateLimit = std::chrono::milliseconds(250);
constexpr int kDrainLooks = 4;  // in the time limit of a drain

const char* name(BreakReason why) noexcept {
  switch (why) {
    case BreakReason::kLocalFault:
      return "a local request failed";
    case BreakReason::kRemoteFault:
      return "the peer reported an error";
    case BreakReason::kProtocol:
      return "the peer broke the protocol or its access rights";
    case BreakReason::kNoReceive:
      return "a message arrived and no receive was posted";
    case BreakReason::kWatermark:
      return "the hard watermark was exceeded";
    case BreakReason::kTransportLost:
      break;
  }
  return "the transport was lost";
}

}  // namespace

void Qp::disconnect(transport::DisconnectMode mode) noexcept {
  std::unique_ptr<Handshake> aborted;  // destroyed without the lock
  const ScopedLock lock(lock_);
  if (mode == transport::DisconnectMode::kGraceful) {
    if (state_ != State::kReady) return;
    set_state(State::kDraining);
    if (timing_ == Timing::kNothing) watch_drain();  // else when the peer has woken up
    transmit(kPassBudget);
    settle();
    return;
  }
  gate_.cancel(kConnectionCalls);
  aborted = std::move(handshake_);
  if (state_ != State::kError) finish(Close::kGently);
}

Status Qp::reset() {
  const ScopedLock lock(lock_);
  if (state_ == State::kIdle) return Status();
  if (state_ != State::kError) return failure(DAT_INVALID_STATE);
  gate_.cancel(kConnectionCalls);
  clear_connection();
  staging_.free();
  // The core uses the work ids of these completions again.
  if (recv_cq_ != nullptr) recv_cq_->purge(*this);
  if (request_cq_ != nullptr && request_cq_ != recv_cq_) request_cq_->purge(*this);
  set_state(State::kIdle);
  return Status();
}

void Qp::raise(BreakReason why) noexcept {
  if (fault_.raised || state_ == State::kError) return;
  fault_.raised = true;
  fault_.terminate = false;
  fault_.why = why;
}

void Qp::raise(BreakReason why, const iwarp::Terminate& message) noexcept {
  if (fault_.raised || state_ == State::kError) return;
  raise(why);
  fault_.terminate = true;
  fault_.message = message;
}

// Acts on what the code below has found. Every entry point calls it last.
void Qp::settle() noexcept {
  if (fault_.raised) [[unlikely]] {
    if (fault_.terminate && (state_ == State::kReady || state_ == State::kDraining))
      start_terminate();
    else if (state_ != State::kTerminating)
      finish_broken(fault_.why,
                    fault_.why == BreakReason::kRemoteFault ? Close::kGently : Close::kReset);
    return;
  }
  if (state_ == State::kDraining && requests_.empty() && responses_.empty() && batch_.empty())
      [[unlikely]] {
    set_state(State::kHalfClosed);
    stream_->shutdown_write();
    start_timer(Timing::kHalfClosed, kCloseLimit);
  }
}

// Whether a peer that takes and acknowledges everything will answer a Read some day cannot be
// known: as long as anything moves it gets the time, afterwards the connection counts as lost.
// Without this, a frame whose length was damaged would let both sides wait for ever
// (docs/adr/0017).
void Qp::watch_drain() noexcept {
  if (drain_limit_ == Clock::duration::zero()) return;
  moved_ = movement();
  still_looks_ = 0;
  start_timer(Timing::kDrain, drain_limit_ / kDrainLooks);
}

Qp::Movement Qp::movement() const noexcept {
  return {batch_.sent(), stream_->unacknowledged(), receiver_->fpdus(), staging_.staged().size()};
}

// A look at the drain. True: its time is over.
bool Qp::drain_stands_still() noexcept {
  if (movement() != moved_) {
    watch_drain();
    return false;
  }
  if (++still_looks_ >= kDrainLooks) return true;
  start_timer(Timing::kDrain, drain_limit_ / kDrainLooks);
  return false;
}

// The Terminate goes behind the FPDUs that are in the batch already; a message of ours that is half
// built stays unfinished.
void Qp::start_terminate() noexcept {
  UDAPL_TRACE(kNormal, "QP %p: sends Terminate: %s", static_cast<void*>(this),
              iwarp::name(fault_.message.code));
  set_state(State::kTerminating);
  pins_.clear();
  if (sender_->busy()) sender_->abandon();
  sender_->begin_terminate(fault_.message);
  start_timer(Timing::kTerminate, kTerminateLimit);
  continue_terminate();
}

void Qp::continue_terminate() noexcept {
  for (;;) {
    if (!pin_unsent()) return finish_broken(fault_.why, Close::kReset);
    if (sender_->busy()) sender_->fill(batch_);
    if (batch_.empty()) break;
    const IoResult sent = stream_->send(batch_.spans());
    pins_.clear();
    if (sent.kind == IoResult::kBlocked) return stream_->set_events(EPOLLOUT);
    if (sent.kind != IoResult::kDone) return finish_broken(fault_.why, Close::kReset);
    batch_.consume(sent.bytes);
  }
  finish_broken(fault_.why, Close::kGently);
}

void Qp::finish_broken(BreakReason why, Close how) noexcept {
  const bool was_accepting = state_ == State::kAccepted;
  UDAPL_TRACE(kNormal, "QP %p: connection broken: %s", static_cast<void*>(this), name(why));
  // What was on its way when the connection went away is not known to have arrived.
  if (why == BreakReason::kTransportLost && requests_.head() < built_)
    requests_.at(requests_.head()).status = DAT_DTO_ERR_TRANSPORT;
  finish(how);
  broken_why_ = why;
  gate_.post(was_accepting ? kAcceptFailed : kBroken);
}

// Everything that is over for good: to kError, all work to the CQs, the socket away. Tells nobody.
void Qp::finish(Close how) noexcept {
  if (srq_ != nullptr && connected()) gate_.post(kSrqReleased);
  set_state(State::kError);
  fault_ = Fault{};
  start_timer(Timing::kNothing, {});
  open_receive_.cancel();
  send_gathered_.cancel();
  pins_.clear();
  flush_requests();
  flush_receives();
  if (has_bound_) memory_.unbind_all(id_);
  has_bound_ = false;
  if (stream_ == nullptr) return;
  // A FIN after half an FPDU would look like a fault of ours.
  if (how == Close::kGently && batch_.empty()) {
    close_gently(std::move(stream_));
  } else {
    stream_->abort_on_close();
    stream_.reset();
  }
}

// A completion was lost, so the consumer can no longer know what happened.
void Qp::break_for_cq() noexcept {
  const iwarp::Terminate message = iwarp::make_terminate(TerminateCode::kRdmapLocalCatastrophic);
  raise(BreakReason::kLocalFault, message);
  if (receiver_.has_value()) receiver_->fail(message);  // nothing more is to be delivered
}

void Qp::on_cq_overflow() noexcept {
  const ScopedLock lock(lock_);
  if (!connected()) return;
  break_for_cq();
  settle();
}

}  // namespace udapl::soft
