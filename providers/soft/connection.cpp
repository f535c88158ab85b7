// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connection: how a connection begins, and its states.
#include "providers/soft/connection.h"

#include "common/tracing/trace.h"
#include "providers/soft/iwarp_link.h"

#include <chrono>
#include <new>
#include <utility>

namespace udapl::soft {

namespace {

using transport::BreakReason;

// Connects. Returns INSUFFICIENT_RESOURCES instead of throwing std::bad_alloc.
Result<std::unique_ptr<Handshake>> start_handshake(Connector& connector,
                                                   const transport::ConnectRequest& request,
                                                   ConnectionEnd& end) noexcept {
  try {
    return connector.connect(request, end);
  } catch (const std::bad_alloc&) {
    return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  }
}

ConnectionEvent event_of(SetupFailure why) noexcept {
  switch (why) {
    case SetupFailure::kRejected:
      return ConnectionEvent::kRejected;
    case SetupFailure::kRefused:
      return ConnectionEvent::kRefused;
    case SetupFailure::kUnreachable:
      return ConnectionEvent::kUnreachable;
    case SetupFailure::kTimedOut:
      break;
  }
  return ConnectionEvent::kTooLate;
}

// Returns null if memory runs out.
std::unique_ptr<IwarpLink> make_link(const iwarp::Agreed& agreed, StagingPool& staging,
                                     const void* owner) noexcept try {
  return std::make_unique<IwarpLink>(agreed, staging, owner);
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace

Connection::Connection(const QpEnvironment& environment, transport::ConnectionSink& sink,
                       ConnectionEnd& end, QpShared& shared, QpLock& lock, Queue& queue)
    : reactor_(environment.reactor),
      connector_(environment.connector),
      staging_(environment.staging),
      accepted_(environment.accepted),
      drain_limit_(environment.drain_limit),
      first_message_limit_(environment.first_message_limit),
      end_(end),
      shared_(shared),
      lock_(lock),
      queue_(queue),
      intake_(shared, queue, reactor_, staging_,
              {environment.peer_timeout, environment.no_receive_limit},
              {udapl::Call::to<&Connection::continue_receive>(this),
               udapl::Call::to<&Connection::on_debt_due>(this),
               udapl::Call::to<&Connection::on_wait_over>(this)}),
      timer_(reactor_, udapl::Call::to<&Connection::on_timer>(this)),
      open_receive_(reactor_, udapl::Call::to<&Connection::open_receive>(this)),
      report_(reactor_, sink, lock, &open_receive_) {}

void Connection::shut_down() noexcept {
  std::unique_ptr<Handshake> handshake;
  {
    const QpGuard guard(lock_);
    apply(Event::kAbort);
    handshake = std::move(handshake_);
  }
  handshake.reset();
  reactor_.quiesce(*this);
}

// ---- states -------------------------------------------------------------------------------------

namespace {

constexpr QueueMode mode_of(ConnectionState state) noexcept {
  switch (state) {
    case ConnectionState::kIdle:
    case ConnectionState::kConnecting:
      return {Posts::kRefused, false, true, false};
    case ConnectionState::kAccepting:
      return {Posts::kQueued, false, true, false};
    case ConnectionState::kReady:
      return {Posts::kQueued, true, true, true};
    case ConnectionState::kDraining:
      return {Posts::kRefused, true, true, true};
    case ConnectionState::kHalfClosed:
      return {Posts::kRefused, false, false, true};
    case ConnectionState::kTerminating:
      return {Posts::kQueued, false, true, true};
    case ConnectionState::kError:
      break;
  }
  return {Posts::kFlushed, false, true, false};
}

}  // namespace

bool Connection::apply(Event event) noexcept {
  const ConnectionStep step = connection_step(state_, event);
  if (!step.allowed) return false;
  if (link_ != nullptr && ends_in_order(state_, event)) queue_.settle_for_delivered();
  if (queue_.uses_srq() && is_connected(state_) && !is_connected(step.next))
    report_.post(SinkCall::kSrqReleased);
  UDAPL_TRACE(kDetail, "QP %p: %s -> %s", static_cast<const void*>(&shared_.qp), name_of(state_),
              name_of(step.next));
  if (state_ == State::kAccepting) accepted_.remove();
  if (step.next == State::kAccepting) accepted_.add();
  state_ = step.next;
  queue_.set_mode(mode_of(state_));
  switch (step.action) {
    case ConnectionAction::kNone:
      break;
    case ConnectionAction::kAwaitFirst:
      intake_.await_first();
      break;
    case ConnectionAction::kPauseInput:
      if (timer_.phase() != Timing::kNothing) timer_.stop();
      intake_.pause();
      break;
    case ConnectionAction::kFinishOutput:
      link_->finish_output();
      break;
    case ConnectionAction::kTerminate:
      start_terminate();
      break;
    case ConnectionAction::kForget:
      clear();
      queue_.purge();
      break;
    case ConnectionAction::kEndGently:
      finish(Close::kGently);
      break;
    case ConnectionAction::kEndReset:
      finish(Close::kReset);
      break;
  }
  report_.post(step.call);
  return true;
}

// Restores the state after construction, but keeps posted receives.
void Connection::clear() noexcept {
  shared_.fault = Fault{};
  report_.forget();
  kicks_ = 0;
  put_off_ = PutOff{};
  queue_.clear();
  intake_.clear();
}

// ---- set-up -------------------------------------------------------------------------------------

Status Connection::connect(const transport::ConnectRequest& request) {
  {
    const QpGuard guard(lock_);
    if (!apply(Event::kConnect)) return failure(DAT_INVALID_STATE);
    if (!report_.reserve()) {
      apply(Event::kNotStarted);
      return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
  }
  Result<std::unique_ptr<Handshake>> started = start_handshake(connector_, request, end_);
  std::unique_ptr<Handshake> superfluous;  // destroyed without the lock
  const QpGuard guard(lock_);
  if (!started.ok()) {
    apply(Event::kNotStarted);
    return started.status();
  }
  // The handshake may have ended meanwhile, or the consumer may have disconnected.
  if (state_ == State::kConnecting)
    handshake_ = *std::move(started);
  else
    superfluous = *std::move(started);
  return Status();
}

Status Connection::attach(std::unique_ptr<ByteStream>& stream,
                          const Negotiated& negotiated) noexcept {
  std::unique_ptr<IwarpLink> made = make_link(negotiated.agreed, staging_, shared_.context);
  IwarpLink* const iwarp = made.get();
  if (iwarp != nullptr) iwarp->start(std::move(stream));
  std::unique_ptr<Link> link = std::move(made);
  const Status attached = attach(link, negotiated);
  if (link != nullptr) stream = iwarp->release_stream();
  return attached;
}

Status Connection::attach(std::unique_ptr<Link>& link, const Negotiated& negotiated) noexcept {
  std::unique_ptr<Handshake> ended;  // destroyed without the lock
  const QpGuard guard(lock_);
  const Event event = negotiated.initiator ? Event::kEstablished : Event::kAccept;
  if (!connection_step(state_, event).allowed) return failure(DAT_INVALID_STATE);
  const Status usable = use(link.get(), negotiated);
  if (!usable.ok()) {
    if (negotiated.initiator) apply(Event::kRefused);
    return usable;
  }
  ended = std::move(handshake_);
  clear();
  link_ = std::move(link);
  shared_.link = link_.get();
  endpoints_ = link_->endpoints();
  queue_.start(negotiated.agreed);
  report_.keep(negotiated.private_data);
  if (negotiated.initiator)
    start_initiator(negotiated);
  else
    start_responder(negotiated);
  settle();
  return Status();
}

// Checks whether the link can be used, and watches it: at first it reports only errors.
Status Connection::use(Link* link, const Negotiated& negotiated) noexcept {
  if (queue_.needs_reads() && negotiated.agreed.ord == 0 &&
      (link == nullptr || link->confirmations() == nullptr)) {
    UDAPL_TRACE(kNormal, "QP %p: the peer serves no RDMA Reads, which delayed_ack needs",
                static_cast<const void*>(&shared_.qp));
    return failure(DAT_MODEL_NOT_SUPPORTED);  // delayed_ack promises what such a link cannot do
  }
  if (link == nullptr) return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  return link->watch(*this);
}

void Connection::start_responder(const Negotiated& negotiated) noexcept {
  apply(Event::kAccept);
  if (!link_->answer(negotiated.reply)) {
    shared_.fault.raise(BreakReason::kTransportLost);
    return;
  }
  const bool peer_begins = negotiated.agreed.rtr != iwarp::kRtrNone;
  timer_.start(peer_begins ? Timing::kFirstMessage : Timing::kGrace,
               peer_begins ? first_message_limit_ : Clock::duration(kGracePeriod));
}

void Connection::start_initiator(const Negotiated& negotiated) noexcept {
  switch (negotiated.agreed.rtr) {
    case iwarp::kRtrRead:
      queue_.add_control(Queue::kRtrRead);
      break;
    case iwarp::kRtrWrite:
      queue_.add_control(Queue::kRtrWrite);
      break;
    case iwarp::kRtrSend:
      queue_.add_control(Queue::kRtrSend);
      break;
    case iwarp::kRtrNone:
      break;
  }
  established(Event::kEstablished);
  if (negotiated.agreed.rtr != iwarp::kRtrNone) timer_.start(Timing::kKick, kFirstKick);
  queue_.transmit(Queue::kPassBudget);
}

// From now on requests may be sent. Input is not read until the sink has been notified of the
// connection, so that no completion precedes the connection event
// (docs/semantics.md#order-of-events).
void Connection::established(Event event) noexcept {
  apply(event);
  queue_.check_watermarks();
}

void Connection::on_failed(SetupFailure why, transport::PrivateData from_peer) noexcept {
  std::unique_ptr<Handshake> ended;  // destroyed without the lock
  const QpGuard guard(lock_);
  if (state_ != State::kConnecting) return;
  ended = std::move(handshake_);
  report_.keep(from_peer);
  apply(event_of(why));
}

}  // namespace udapl::soft
