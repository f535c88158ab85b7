// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: how a connection is set up, from both sides; what its Connection tells.
#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

namespace udapl::verbs {

using transport::PrivateData;

namespace {

// 0.64 ms, as existing providers on InfiniBand ask; rdma_cm's own 0 means 0.65 s.
constexpr std::uint8_t kRnrTimer = 12;

std::uint8_t depth(int ours, int limit) noexcept {
  // 255 is a value with a meaning of its own.
  return static_cast<std::uint8_t>(std::clamp(std::min(ours, limit), 0, 254));
}

// Both ports have to have the MTU that the active side's has chosen for the path.
std::string mtu_advice(const Device& device, const ibv_qp_attr& attr, int mask) {
  const auto bytes = [](ibv_mtu mtu) { return std::to_string(128U << mtu); };
  if ((mask & IBV_QP_PATH_MTU) == 0 || attr.path_mtu <= device.port_attr.active_mtu) return {};
  return "; the path's MTU is " + bytes(attr.path_mtu) + ", that of " + device.name + " port " +
         std::to_string(device.port) + " only " + bytes(device.port_attr.active_mtu) +
         "; try: the same MTU for the interfaces of both hosts";
}

QpEvent event_of(SetupFailure why) noexcept {
  switch (why) {
    case SetupFailure::kRejected:
      return QpEvent::kRejected;
    case SetupFailure::kRefused:
      return QpEvent::kRefused;
    case SetupFailure::kUnreachable:
      break;
  }
  return QpEvent::kUnreachable;
}

}  // namespace

QpTerms Qp::terms() const noexcept {
  return {this,
          init_.context,
          qp_->qp_num,
          init_.srq != nullptr,
          init_.max_rdma_read_in,
          init_.max_rdma_read_out};
}

// ---- the core's wishes -------------------------------------------------------------------------

Status Qp::connect(const transport::ConnectRequest& request) {
  // If it goes, it goes without the lock.
  Result<std::unique_ptr<Connection>> made = adapter_.connector().prepare(request, *this);
  if (!made.ok()) return made.status();

  const ScopedLock lock(lock_);
  if (!step(state_, QpEvent::kConnect).allowed) return failure(DAT_INVALID_STATE);
  clear_connection();
  Result<bool> started = (*made)->start(terms());
  if (!started.ok()) return started.status();
  take(QpEvent::kConnect);
  if (!*started) {
    take(QpEvent::kUnreachable);
    return Status();
  }
  request_timeout_us_ = request.timeout_us;
  connection_ = *std::move(made);
  endpoints_ = connection_->endpoints();
  if (request.timeout_us != DAT_TIMEOUT_INFINITE)
    start_timer(Timing::kConnect, std::chrono::microseconds(request.timeout_us));
  return Status();
}

Status Qp::accept(std::unique_ptr<Connection>& offered, PrivateData private_data) {
  std::unique_ptr<Connection> failed;  // which goes without the lock
  const ScopedLock lock(lock_);
  const trace::About about(init_.context);
  if (!step(state_, QpEvent::kAccept).allowed) return failure(DAT_INVALID_STATE);
  if (!offered->on_our_port(this)) return failure(DAT_INTERNAL_ERROR);
  clear_connection();
  take(QpEvent::kAccept);
  connection_ = std::move(offered);
  endpoints_ = connection_->endpoints();
  connection_->attach(*this, terms());  // what comes now waits for the lock
  const bool gone = connection_->peer_gone();
  if (!gone && to_ready() && connection_->reply(private_data)) {
    // A peer that gave up just before the request got here cannot tell us, and the kernel would
    // repeat the reply for a minute.
    start_timer(Timing::kAccept, std::chrono::milliseconds(adapter_.environment().rtu_timeout_ms));
    return Status();
  }
  enter_error();
  gate_.post(kAcceptFailed);
  failed = std::move(connection_);
  if (!gone) failed->refuse();
  return Status();
}

// ---- ConnectionEnd: by the driver, so the Connection may go under the lock ---------------------

// The QP becomes ready before the peer is told that it may send.
void Qp::on_reply(Connection& connection, PrivateData from_peer) noexcept {
  const ScopedLock lock(lock_);
  if (&connection != connection_.get() || state_ != QpState::kConnecting) return;
  keep(from_peer);
  if (to_ready() && connection.confirm()) return established();
  UDAPL_TRACE(kNormal, "QP %p: the connection cannot be completed: %s", static_cast<void*>(this),
              ErrnoText(errno).c_str());
  connection.refuse();
  take(QpEvent::kRefused);
}

void Qp::on_established(Connection& connection, PrivateData reply) noexcept {
  const ScopedLock lock(lock_);
  if (&connection != connection_.get()) return;
  if (state_ == QpState::kConnecting)
    keep(reply);
  else if (state_ != QpState::kAccepting)
    return;
  established();
}

void Qp::on_failed(Connection& connection, SetupFailure why, PrivateData from_peer) noexcept {
  const ScopedLock lock(lock_);
  if (&connection != connection_.get()) return;
  if (state_ == QpState::kConnecting) keep(from_peer);
  take(event_of(why));
}

void Qp::on_lost(Connection& connection, Loss why) noexcept {
  const ScopedLock lock(lock_);
  if (&connection != connection_.get()) return;
  const bool drained = drained_.load(std::memory_order_acquire);
  if (why == Loss::kEndedByPeer && state_ == QpState::kDraining && drained)
    return take(QpEvent::kDrained);  // the connection was over before the peer said so
  if (!connected() || why == Loss::kEndedByPeer)
    return take(why == Loss::kEndedByPeer ? QpEvent::kPeerEnded : QpEvent::kPeerLost);
  // The device has not given up yet, and now never will. The oldest request fails nevertheless by
  // the loss and the others are flushed, as if it had; the marker is behind those of now.
  lost_.store(why == Loss::kPeerLost, std::memory_order_release);
  broken_cause_ = transport::BreakReason::kTransportLost;
  take(QpEvent::kPeerLost);
  post_marker();
}

// ---- both --------------------------------------------------------------------------------------

// What the two ends have agreed upon, with our limits and what the administrator wants.
bool Qp::change_state(ibv_qp_state state) noexcept {
  const Environment& environment = adapter_.environment();
  ibv_qp_attr attr{};
  int mask = 0;
  if (!connection_->attributes(state, attr, mask)) return false;
  if (state == IBV_QPS_INIT) {
    if (attr.pkey_index == kFirstPkey) return true;
    mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX;  // the rest is as it was
  }
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    attr.max_dest_rd_atomic = depth(init_.max_rdma_read_in, attr.max_dest_rd_atomic);
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    attr.max_rd_atomic = depth(init_.max_rdma_read_out, attr.max_rd_atomic);
    serves_reads_.store(attr.max_rd_atomic != 0, std::memory_order_relaxed);
  }
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0)
    attr.min_rnr_timer = environment.rnr_timer.value_or(kRnrTimer);
  if ((mask & IBV_QP_TIMEOUT) != 0 && environment.ack_timer.has_value())
    attr.timeout = *environment.ack_timer;
  const int error =
      point::ended("ibv_modify_qp", name_of(state), ::ibv_modify_qp(qp_, &attr, mask));
  if (error == 0) return true;
  static constinit trace::RateLimit limit;
  UDAPL_TRACE_LIMITED(limit, kError, "QP %p: ibv_modify_qp to %s: %s%s", static_cast<void*>(this),
                      name_of(state), ErrnoText(error).c_str(),
                      mtu_advice(adapter_.device(), attr, mask).c_str());
  errno = error;
  return false;
}

bool Qp::to_ready() noexcept {
  return change_state(IBV_QPS_INIT) && change_state(IBV_QPS_RTR) && change_state(IBV_QPS_RTS);
}

void Qp::established() noexcept {
  start_timer(Timing::kNothing, {});
  // There the kernel has made the QP ready, and tells nothing of the depth that it has agreed upon.
  if (adapter_.device().iwarp())
    serves_reads_.store(init_.max_rdma_read_out > 0, std::memory_order_relaxed);
  endpoints_ = connection_->endpoints();
  take(QpEvent::kEstablished);
  // A failure, or a mark exceeded, from before.
  reported_failures_.post();
}

void Qp::keep(PrivateData from_peer) noexcept {
  peer_data_size_ = std::min(from_peer.size(), peer_data_.size());
  std::copy_n(from_peer.begin(), peer_data_size_, peer_data_.begin());
}

}  // namespace udapl::verbs
