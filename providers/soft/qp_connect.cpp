// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: how a connection begins, and its one timer.
#include "common/trace.h"
#include "providers/soft/qp.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <utility>

namespace udapl::soft {

namespace {

using std::chrono::milliseconds;
using transport::BreakReason;

// soft-transport 1.1, 1.10, 1.12.
constexpr auto kFirstFpduLimit = milliseconds(5000);
constexpr auto kGracePeriod = milliseconds(50);
constexpr auto kFirstKick = milliseconds(5);
constexpr int kMaxKicks = 5;

// Out of memory is a refusal like others here: the QP is idle again.
Result<std::unique_ptr<Handshake>> start_handshake(Connector& connector,
                                                   const transport::ConnectRequest& request,
                                                   ConnectionEnd& end) noexcept {
  try {
    return connector.connect(request, end);
  } catch (const std::bad_alloc&) {
    return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  }
}

}  // namespace

Status Qp::connect(const transport::ConnectRequest& request) {
  {
    const ScopedLock lock(lock_);
    if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
    set_state(State::kConnecting);
  }
  Result<std::unique_ptr<Handshake>> started = start_handshake(connector_, request, *this);
  std::unique_ptr<Handshake> superfluous;  // destroyed without the lock
  const ScopedLock lock(lock_);
  if (!started.ok()) {
    if (state_ == State::kConnecting) set_state(State::kIdle);
    return started.status();
  }
  // It may have ended meanwhile, or a disconnect may have come.
  if (state_ == State::kConnecting)
    handshake_ = *std::move(started);
  else
    superfluous = *std::move(started);
  return Status();
}

iwarp::MpaConfig Qp::mpa_config() const noexcept {
  const ScopedLock lock(lock_);
  iwarp::MpaConfig config;
  config.ird = static_cast<std::uint16_t>(std::min<std::uint32_t>(max_read_in_, iwarp::kDepthMax));
  const std::uint32_t reads = std::max(max_read_out_, delayed_ack_ ? 1U : 0U);
  config.ord = static_cast<std::uint16_t>(std::min<std::uint32_t>(reads, iwarp::kDepthMax));
  return config;
}

Status Qp::attach(std::unique_ptr<TcpStream>& stream, const Negotiated& negotiated) noexcept {
  std::unique_ptr<Handshake> ended;  // destroyed without the lock
  const ScopedLock lock(lock_);
  const bool expected =
      state_ == State::kIdle || (negotiated.initiator && state_ == State::kConnecting);
  if (!expected) return failure(DAT_INVALID_STATE);
  if (delayed_ack_ && negotiated.agreed.ord == 0) {  // less than was promised is no connection
    UDAPL_TRACE(kNormal, "QP %p: the peer serves no RDMA Reads, which delayed_ack needs",
                static_cast<void*>(this));
    if (negotiated.initiator) {
      finish(Close::kReset);
      gate_.post(kRefused);
    }
    return failure(DAT_MODEL_NOT_SUPPORTED);
  }
  // Only errors are reported until the sink knows that we are connected.
  const Status watched = stream->watch(0, *this);
  if (!watched.ok()) {
    if (negotiated.initiator) {
      finish(Close::kReset);
      gate_.post(kRefused);
    }
    return watched;
  }
  ended = std::move(handshake_);
  clear_connection();
  stream_ = std::move(stream);
  stream_->refresh_endpoints();
  endpoints_ = stream_->endpoints();
  const iwarp::Agreed& agreed = negotiated.agreed;
  sender_.emplace(
      iwarp::SenderConfig{agreed.crc, agreed.markers_to_send, stream_->effective_mss(), context_});
  receiver_.emplace(agreed.crc, context_);
  read_stag_ = memory_.ephemeral_stag();
  ord_ = agreed.ord == iwarp::kDepthNotNegotiated
             ? max_read_out_
             : std::min<std::uint32_t>(agreed.ord, max_read_out_);
  // A Read that opens the connection needs a place even where the consumer allows none.
  ird_ = std::max(max_read_in_, (agreed.rtr & iwarp::kRtrRead) != 0 ? 1U : 0U);
  private_data_.assign(negotiated.private_data.begin(), negotiated.private_data.end());
  if (negotiated.initiator)
    start_initiator(negotiated);
  else
    start_responder(negotiated);
  settle();
  return Status();
}

void Qp::start_responder(const Negotiated& negotiated) noexcept {
  set_state(State::kAccepted);
  receive_open_ = true;
  stream_->set_events(EPOLLIN);
  const IoResult sent = stream_->send(negotiated.reply);
  if (sent.kind != IoResult::kDone || sent.bytes != negotiated.reply.size()) {
    raise(BreakReason::kTransportLost);
    return;
  }
  const bool peer_begins = negotiated.agreed.rtr != iwarp::kRtrNone;
  start_timer(peer_begins ? Timing::kFirstFpdu : Timing::kGrace,
              peer_begins ? Clock::duration(kFirstFpduLimit) : Clock::duration(kGracePeriod));
}

void Qp::start_initiator(const Negotiated& negotiated) noexcept {
  switch (negotiated.agreed.rtr) {
    case iwarp::kRtrRead:
      controls_ = kRtrRead;
      break;
    case iwarp::kRtrWrite:
      controls_ = kRtrWrite;
      break;
    case iwarp::kRtrSend:
      controls_ = kRtrSend;
      break;
    case iwarp::kRtrNone:
      break;
  }
  established();
  if (controls_ != 0) start_timer(Timing::kKick, kFirstKick);
  transmit(kPassBudget);
}

// From now on requests may be sent. What arrives stays in the socket until the sink has been told,
// so that no completion is older than the connection (udapl-semantics 4.3).
void Qp::established() noexcept {
  set_state(State::kReady);
  if (timing_ != Timing::kNothing) start_timer(Timing::kNothing, {});
  receive_open_ = false;
  stream_->set_events(0);
  gate_.post(kEstablished);
  check_watermarks();
}

void Qp::open_receive() noexcept {
  const ScopedLock lock(lock_);
  if (stream_ == nullptr || state_ == State::kTerminating || receive_open_) return;
  receive_open_ = true;
  stream_->set_events(blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  if (!staging_.staged().empty()) consume_staged();
  transmit(kPassBudget);
  settle();
}

void Qp::connect_failed(ConnectFailure why, transport::PrivateData from_peer) noexcept {
  std::unique_ptr<Handshake> ended;  // destroyed without the lock
  const ScopedLock lock(lock_);
  if (state_ != State::kConnecting) return;
  ended = std::move(handshake_);
  private_data_.assign(from_peer.begin(), from_peer.end());
  finish(Close::kReset);
  switch (why) {
    case ConnectFailure::kRejected:
      return gate_.post(kRejected);
    case ConnectFailure::kRefused:
      return gate_.post(kRefused);
    case ConnectFailure::kUnreachable:
      return gate_.post(kUnreachable);
    case ConnectFailure::kTimedOut:
      return gate_.post(kTimedOut);
  }
}

// ---- time --------------------------------------------------------------------------------------

void Qp::start_timer(Timing timing, Clock::duration delay) noexcept {
  timing_ = timing;
  if (timing == Timing::kNothing)
    timer_.stop();
  else
    timer_.start_after(delay);
}

void Qp::on_timer() noexcept {
  const trace::About about(context_);
  const ScopedLock lock(lock_);
  switch (std::exchange(timing_, Timing::kNothing)) {
    case Timing::kNothing:
      return;
    case Timing::kFirstFpdu:
      UDAPL_TRACE(kNormal, "QP %p: the peer's first message did not come",
                  static_cast<void*>(this));
      return finish_broken(BreakReason::kTransportLost, Close::kReset);
    case Timing::kGrace:  // such a peer waits for us
      if (stream_->unacknowledged() != 0) return start_timer(Timing::kGrace, kGracePeriod);
      established();
      break;
    case Timing::kKick:  // cures a wake-up that kernel siw loses (soft-transport 1.12)
      if (receiver_->fpdus() != 0 || !staging_.staged().empty() || kicks_ == kMaxKicks) {
        if (state_ == State::kDraining) watch_drain();
        return;
      }
      ++kicks_;
      controls_ |= kKickWrite;
      start_timer(Timing::kKick, kFirstKick * (1 << kicks_));
      transmit(kPassBudget);
      break;
    case Timing::kDrain:
      if (!drain_stands_still()) return;
      UDAPL_TRACE(kNormal, "QP %p: nothing moves any more while it drains",
                  static_cast<void*>(this));
      return finish_broken(BreakReason::kTransportLost, Close::kReset);
    case Timing::kHalfClosed:  // the peer does not close its side
      finish(Close::kReset);
      gate_.post(kDisconnected);
      return;
    case Timing::kTerminate:
      return finish_broken(fault_.why, Close::kReset);
  }
  settle();
}

}  // namespace udapl::soft
