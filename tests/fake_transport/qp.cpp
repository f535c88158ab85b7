// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/fake_transport/qp.h"

#include "tests/fake_transport/fake.h"
#include "tests/fake_transport/scheduler.h"

#include <algorithm>
#include <map>
#include <utility>

namespace udapl::fake {

namespace {

std::map<const void*, Qp*>& qps_by_context() {
  static auto* const qps = new std::map<const void*, Qp*>;
  return *qps;
}

void defer_report(Qp* owner, transport::ConnectionSink* sink,
                  void (*report)(transport::ConnectionSink&)) {
  Scheduler::instance().defer(owner, [sink, report] { report(*sink); });
}

void report_disconnected(transport::ConnectionSink& sink) { sink.on_disconnected(); }
void report_broken_locally(transport::ConnectionSink& sink) {
  sink.on_broken(transport::BreakReason::kLocalFault);
}
void report_broken_remotely(transport::ConnectionSink& sink) {
  sink.on_broken(transport::BreakReason::kRemoteFault);
}

Cq& fake(transport::Cq* cq) { return static_cast<Cq&>(*cq); }

}  // namespace

// ---- life --------------------------------------------------------------------------------------

Qp::Qp(const transport::QpInit& init, int max_private_data)
    : init_(init), max_private_data_(max_private_data) {
  const std::scoped_lock lock(world());
  qps_by_context()[init.context] = this;
  fake(init_.recv_cq).add_feeder(*this);
  fake(init_.request_cq).add_feeder(*this);
}

Qp::~Qp() {
  {
    const std::scoped_lock lock(world());
    if (state_ != State::kIdle && state_ != State::kError)
      end_both_locked(nullptr, report_broken_remotely);
    if (handshake_ != nullptr) handshake_->active = nullptr;
    fake(init_.recv_cq).remove_feeder(*this);
    fake(init_.request_cq).remove_feeder(*this);
    fake(init_.recv_cq).purge_locked(init_.context);
    fake(init_.request_cq).purge_locked(init_.context);
    const auto mine = qps_by_context().find(init_.context);
    if (mine != qps_by_context().end() && mine->second == this) qps_by_context().erase(mine);
  }
  Scheduler::instance().cancel(this);
}

Qp* Qp::of(const void* context) {
  const std::scoped_lock lock(world());
  const auto found = qps_by_context().find(context);
  return found == qps_by_context().end() ? nullptr : found->second;
}

Status Qp::modify(const transport::QpInit& init) {
  if (on_modify) on_modify();
  if (refuse_modify) return failure(DAT_INSUFFICIENT_RESOURCES);
  const std::scoped_lock lock(world());
  if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
  fake(init_.recv_cq).remove_feeder(*this);
  fake(init_.request_cq).remove_feeder(*this);
  init_ = init;
  fake(init_.recv_cq).add_feeder(*this);
  fake(init_.request_cq).add_feeder(*this);
  return Status();
}

Status Qp::reset() {
  if (refuse_reset) return failure(DAT_INSUFFICIENT_RESOURCES);
  Scheduler::instance().cancel(this);
  const std::scoped_lock lock(world());
  if (state_ != State::kError) return failure(DAT_INVALID_STATE);
  state_ = State::kIdle;
  loopback_ = false;
  flushes_ = false;
  requests_.clear();
  buffers_.clear();
  fake(init_.recv_cq).purge_locked(init_.context);
  fake(init_.request_cq).purge_locked(init_.context);
  return Status();
}

// ---- connecting --------------------------------------------------------------------------------

Status Qp::connect(const transport::ConnectRequest& request) {
  if (refuse_connect) return failure(DAT_INSUFFICIENT_RESOURCES);
  if (request.remote.family() != AF_INET && request.remote.family() != AF_INET6)
    return failure(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED);
  const std::scoped_lock lock(world());
  if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
  state_ = State::kConnecting;
  ends_ = {Network::address(), request.remote, Network::next_port_locked(),
           transport::port_of(request.conn_qual)};
  handshake_ = std::make_shared<Handshake>(
      Handshake{this,
                ends_,
                init_.max_rdma_read_in,
                init_.max_rdma_read_out,
                {request.private_data.begin(), request.private_data.end()}});
  Network::offer_locked(request.conn_qual, handshake_);
  return Status();
}

Status Qp::accept_locked(const std::shared_ptr<Handshake>& handshake, transport::PrivateData data) {
  if (refuse_connect) return failure(DAT_INSUFFICIENT_RESOURCES);
  if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
  if (static_cast<int>(data.size()) > max_private_data_) return failure(DAT_INVALID_PARAMETER);
  ends_ = {handshake->active_ends.remote, handshake->active_ends.local,
           handshake->active_ends.remote_port, handshake->active_ends.local_port};
  Qp* const active = handshake->active;
  if (active == nullptr) {
    accept_failed_locked();
    return Status();
  }
  active->handshake_.reset();
  // Notify the passive side first: messages that the active side sends at once arrive after that.
  connected_locked(active, {});
  active->connected_locked(this, {data.begin(), data.end()});
  return Status();
}

void Qp::connected_locked(Qp* peer, std::vector<std::byte> data) {
  state_ = State::kReady;
  peer_ = peer;
  Scheduler::instance().defer(
      this, [sink = init_.sink, data = std::move(data)] { sink->on_established(data); });
}

void Qp::rejected_locked(std::vector<std::byte> data) {
  if (state_ != State::kConnecting) return;
  end_locked(nullptr);
  Scheduler::instance().defer(
      this, [sink = init_.sink, data = std::move(data)] { sink->on_rejected(data); });
}

void Qp::refused_locked() {
  if (state_ == State::kConnecting)
    end_locked([](transport::ConnectionSink& sink) { sink.on_refused(); });
}

void Qp::accept_failed_locked() {
  end_locked([](transport::ConnectionSink& sink) { sink.on_accept_failed(); });
}

void Qp::establish(transport::PrivateData from_peer) {
  const std::scoped_lock lock(world());
  loopback_ = true;
  connected_locked(nullptr, {from_peer.begin(), from_peer.end()});
}

void Qp::reject(transport::PrivateData from_peer) {
  const std::scoped_lock lock(world());
  rejected_locked({from_peer.begin(), from_peer.end()});
}

void Qp::refuse() {
  const std::scoped_lock lock(world());
  refused_locked();
}

void Qp::unreachable() {
  const std::scoped_lock lock(world());
  end_locked([](transport::ConnectionSink& sink) { sink.on_unreachable(); });
}

void Qp::time_out() {
  const std::scoped_lock lock(world());
  end_locked([](transport::ConnectionSink& sink) { sink.on_timed_out(); });
}

// ---- the end of a connection -------------------------------------------------------------------

void Qp::end_locked(Report report) {
  state_ = State::kError;
  loopback_ = false;
  if (handshake_ != nullptr) handshake_->active = nullptr;
  handshake_.reset();
  flushes_ = flush_delay != 0;
  if (!flushes_) flush_locked();
  if (report != nullptr) defer_report(this, init_.sink, report);
}

bool Qp::flushing() const noexcept {
  const std::scoped_lock lock(world());
  return flushes_;
}

void Qp::polled_locked() {
  if (!flushes_ || flush_delay < 0 || --flush_delay > 0) return;
  flushes_ = false;
  flush_locked();
}

void Qp::end_both_locked(Report mine, Report of_peer) {
  Qp* const peer = std::exchange(peer_, nullptr);
  end_locked(mine);
  if (peer == nullptr) return;
  peer->peer_ = nullptr;
  peer->end_locked(of_peer);
}

void Qp::disconnect(transport::DisconnectMode mode) noexcept {
  const std::scoped_lock lock(world());
  if (state_ == State::kIdle || state_ == State::kError) return;
  if (mode == transport::DisconnectMode::kGraceful) {
    state_ = State::kDraining;
    finish_drain_locked();
    return;
  }
  Scheduler::instance().drop(this);
  end_both_locked(nullptr, report_disconnected);
}

void Qp::finish_drain_locked() {
  if (state_ == State::kDraining && requests_.empty())
    end_both_locked(report_disconnected, report_disconnected);
}

void Qp::break_(transport::BreakCause cause) {
  const std::scoped_lock lock(world());
  Qp* const peer = std::exchange(peer_, nullptr);
  end_locked(nullptr);
  Scheduler::instance().defer(this, [sink = init_.sink, cause] { sink->on_broken(cause); });
  if (peer == nullptr) return;
  peer->peer_ = nullptr;
  peer->end_locked(report_disconnected);
}

void Qp::break_later_locked(transport::BreakReason why) {
  // The caller is in the middle of a completion: break when the scheduler runs.
  Scheduler::instance().defer(this, [this, why] {
    if (state() == State::kReady || state() == State::kDraining) break_(why);
  });
}

void Qp::async_error() {
  const std::scoped_lock lock(world());
  defer_report(this, init_.sink, [](transport::ConnectionSink& sink) { sink.on_async_error(); });
}

// ---- watermarks and state ----------------------------------------------------------------------

void Qp::set_watermarks(int soft, int hard) noexcept {
  const std::scoped_lock lock(world());
  soft_ = soft;
  hard_ = hard;
  check_watermarks_locked();
}

void Qp::check_watermarks_locked() {
  const int held = static_cast<int>(buffers_.size());
  if (soft_ >= 0 && held > soft_) {
    soft_ = -1;
    defer_report(this, init_.sink,
                 [](transport::ConnectionSink& sink) { sink.on_soft_watermark(); });
  }
  if (hard_ >= 0 && held > hard_ && state_ == State::kReady) {
    hard_ = -1;
    break_later_locked(transport::BreakReason::kWatermark);
  }
}

transport::ReceiveCounts Qp::receive_counts() const noexcept {
  const std::scoped_lock lock(world());
  const int held = static_cast<int>(buffers_.size());
  return {held, held};
}

transport::Endpoints Qp::endpoints() const noexcept {
  const std::scoped_lock lock(world());
  return ends_;
}

Qp::State Qp::state() const {
  const std::scoped_lock lock(world());
  return state_;
}

transport::QpInit Qp::init() const {
  const std::scoped_lock lock(world());
  return init_;
}

int Qp::receives_of_the_core() const { return init().sink->receives_held(); }

void Qp::hold(bool held) {
  const std::scoped_lock lock(world());
  held_ = held;
  if (!held) pump_locked();
}

bool Qp::deliver(const void* data, std::size_t length, bool solicited) {
  const std::scoped_lock lock(world());
  const auto* const bytes = static_cast<const std::byte*>(data);
  Work work{};
  if (solicited) work.flags = transport::kSolicited;
  const std::vector<std::byte> message(bytes, bytes + length);
  if (receive_locked(message, work) == DAT_DTO_SUCCESS) return true;
  end_both_locked(report_broken_locally, report_broken_remotely);
  return false;
}

}  // namespace udapl::fake
