// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: resources, time, sink calls.
#include "providers/verbs/qp.h"

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/srq.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace udapl::verbs {

using transport::BreakReason;
using transport::QpInit;

namespace {

// Requests of our own: invalidations in front of binds, the marker of a graceful disconnect.
constexpr int kSpareRequests = 16;

Cq& cq_of(transport::Cq* cq) noexcept { return *static_cast<Cq*>(cq); }

// Does a queue made for `a` do for `b`?
bool same_queue(const QpInit& a, const QpInit& b) noexcept {
  return a.pd == b.pd && a.recv_cq == b.recv_cq && a.request_cq == b.request_cq &&
         a.max_recv == b.max_recv && a.max_request == b.max_request &&
         a.max_recv_segments == b.max_recv_segments &&
         a.max_request_segments == b.max_request_segments;
}

// Only solicited receives notify, if the device can tell them; else too many do rather than none.
bool solicited_only(const Adapter& adapter, const QpInit& init) noexcept {
  return init.solicited_only && adapter.device().wakes_for_solicited();
}

std::uint32_t count(int number, int at_least) noexcept {
  return static_cast<std::uint32_t>(std::max(number, at_least));
}

}  // namespace

void Qp::DestroyQp::operator()(ibv_qp* qp) const noexcept {
  const int error = ::ibv_destroy_qp(qp);
  if (error != 0) UDAPL_TRACE(kError, "ibv_destroy_qp: %s", ErrnoText(error).c_str());
}

Result<std::unique_ptr<transport::Qp>> Qp::create(Adapter& adapter, const QpInit& init) {
  auto qp = std::make_unique<Qp>(adapter, init);
  Result<QpHandle> queue = qp->make_queue(init);
  if (!queue.ok()) return queue.status();
  QpHandle none;
  {
    const ScopedLock lock(qp->lock_);
    qp->exchange_queue(*std::move(queue), init, &none);
  }
  return std::unique_ptr<transport::Qp>(std::move(qp));
}

Qp::Qp(Adapter& adapter, const QpInit& init)
    : own_receives_(init.srq == nullptr),
      request_regions_(adapter.memory()),
      receive_regions_(adapter.memory()),
      adapter_(adapter),
      reactor_(adapter.reactor()),
      memory_(adapter.memory()),
      sink_(*init.sink),
      init_(init),
      timer_(reactor_, Call::to<&Qp::on_timer>(this)),
      reported_failures_(reactor_, Call::to<&Qp::handle_reported_failures>(this)),
      gate_(reactor_, SinkGate::to<&Qp::deliver, Qp>(), this) {}

Qp::~Qp() {
  disconnect(transport::DisconnectMode::kAbrupt);
  QpHandle queue;
  {
    const ScopedLock lock(lock_);
    queue = std::move(queue_);
  }
  // After this no completion and no asynchronous event finds us.
  if (queue != nullptr) retire_queue(std::move(queue), init_);
  timer_.stop();
  reported_failures_.close();
  gate_.close();
}

// ---- the verbs QP ------------------------------------------------------------------------------

// A device that has less room for inline data than it is asked for refuses the QP, and does not say
// how much it has.
Qp::QpHandle Qp::create_with_inline(Adapter& adapter, ibv_pd* pd, const ibv_qp_init_attr& wanted) {
  constexpr std::uint32_t kWorthwhile = 16;
  for (std::uint32_t bytes = adapter.max_inline();; bytes = bytes > kWorthwhile ? bytes / 2 : 0) {
    ibv_qp_init_attr attr = wanted;
    attr.cap.max_inline_data = bytes;
    QpHandle queue(point::made("ibv_create_qp", ::ibv_create_qp(pd, &attr)));
    if (queue != nullptr) adapter.fewer_inline(bytes);
    if (queue != nullptr || errno != EINVAL || bytes == 0) return queue;
  }
}

// In state INIT, so that receives can be posted.
Result<Qp::QpHandle> Qp::make_queue(const QpInit& init) {
  const Device& device = adapter_.device();
  const ibv_device_attr& limits = device.attr.orig_attr;
  ibv_qp_init_attr attr{};
  attr.qp_context = this;
  attr.send_cq = cq_of(init.request_cq).get();
  attr.recv_cq = cq_of(init.recv_cq).get();
  attr.srq = init.srq != nullptr ? static_cast<Srq*>(init.srq)->get() : nullptr;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = static_cast<std::uint32_t>(
      std::max(std::min(init.max_request + kSpareRequests, limits.max_qp_wr), init.max_request));
  attr.cap.max_send_sge = count(init.max_request_segments, 1);
  attr.cap.max_recv_wr = init.srq != nullptr ? 0 : count(init.max_recv, 1);
  attr.cap.max_recv_sge = init.srq != nullptr ? 0 : count(init.max_recv_segments, 1);
  QpHandle queue = create_with_inline(adapter_, static_cast<Pd*>(init.pd)->get(), attr);
  if (queue == nullptr) {
    const int error = errno;
    const Status status = status_of(error, DAT_RESOURCE_TEP);
    UDAPL_EXPLAIN_ERRNO(kError, status.code(), error,
                        "ibv_create_qp with %d requests of %d segments, %d receives of %d",
                        init.max_request, init.max_request_segments, init.max_recv,
                        init.max_recv_segments);
    return status;
  }

  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.pkey_index = kFirstPkey;
  state.port_num = device.port;
  state.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (device.has_atomics()) state.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  if (limits.max_mw > 0) state.qp_access_flags |= IBV_ACCESS_MW_BIND;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int error =
      point::ended("ibv_modify_qp", "INIT", ::ibv_modify_qp(queue.get(), &state, kMask));
  if (error != 0) {
    const Status status = status_of(error, DAT_RESOURCE_TEP);
    UDAPL_EXPLAIN_ERRNO(kError, status.code(), error, "ibv_modify_qp to INIT, port %d",
                        device.port);
    return status;
  }
  return queue;
}

void Qp::attach(const ibv_qp& qp, const QpInit& init) {
  cq_of(init.request_cq).attach(*this, qp.qp_num, init.context, Cq::Role::kRequest, false);
  try {
    cq_of(init.recv_cq)
        .attach(*this, qp.qp_num, init.context, Cq::Role::kReceive, solicited_only(adapter_, init),
                static_cast<Srq*>(init.srq));
  } catch (...) {
    cq_of(init.request_cq).detach(qp.qp_num, Cq::Role::kRequest, false);
    throw;
  }
}

void Qp::detach(std::uint32_t number, const QpInit& init) noexcept {
  cq_of(init.request_cq).detach(number, Cq::Role::kRequest, false);
  cq_of(init.recv_cq).detach(number, Cq::Role::kReceive, solicited_only(adapter_, init));
}

void Qp::exchange_queue(QpHandle fresh, const QpInit& init, QpHandle* former) {
  attach(*fresh, init);
  *former = std::exchange(queue_, std::move(fresh));
  init_ = init;
  qp_ = queue_.get();
  max_inline_ = adapter_.max_inline();
  max_binds_ = count(init.max_request, 1);
  request_cq_ = &cq_of(init.request_cq);
  recv_cq_ = &cq_of(init.recv_cq);
  request_regions_.forget();
  receive_regions_.forget();
  update_receives();
  prepare_requests();
  const ScopedLock lock(binds_lock_);
  binds_.clear();
  next_bind_ = 0;
}

// Destroying waits for asynchronous events that are being handled, which take lock_.
void Qp::retire_queue(QpHandle former, const QpInit& init) noexcept {
  if (former == nullptr) return;
  const std::uint32_t number = former->qp_num;
  memory_.qp_ends(*this);
  former.reset();
  detach(number, init);
}

Status Qp::modify(const QpInit& init) {
  QpInit before;
  {
    const ScopedLock lock(lock_);
    if (state_ != QpState::kIdle) return failure(DAT_INVALID_STATE);
    before = init_;
    if (same_queue(before, init) && before.solicited_only == init.solicited_only) {
      init_ = init;
      return Status();
    }
  }
  if (held() != 0) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_STATE),
                  "%d receives are posted, and verbs would lose them", held());
    return failure(DAT_INVALID_STATE);
  }
  Result<QpHandle> fresh = make_queue(init);
  if (!fresh.ok()) return fresh.status();
  QpHandle former;
  {
    const ScopedLock lock(lock_);
    exchange_queue(*std::move(fresh), init, &former);
  }
  retire_queue(std::move(former), before);
  return Status();
}

Status Qp::reset() {
  QpInit init;
  {
    const ScopedLock lock(lock_);
    if (state_ == QpState::kIdle) return Status();
    if (!step(state_, QpEvent::kReset).allowed) return failure(DAT_INVALID_STATE);
    init = init_;
  }
  Result<QpHandle> fresh = make_queue(init);
  if (!fresh.ok()) return fresh.status();
  gate_.drain();
  QpHandle former;
  {
    const ScopedLock lock(lock_);
    start_timer(Timing::kNothing, {});
    exchange_queue(*std::move(fresh), init, &former);
  }
  // Its completions and events find us in error still, and change nothing.
  retire_queue(std::move(former), init);
  const ScopedLock lock(lock_);
  clear_connection();
  endpoints_ = {};
  in_error_.store(false, std::memory_order_relaxed);
  update_receives();
  set_state(QpState::kIdle);
  return Status();
}

// ---- states and time ---------------------------------------------------------------------------

void Qp::clear_connection() noexcept {
  peer_data_size_ = 0;
  marked_ = false;
  broken_cause_ = BreakReason::kTransportLost;
  drained_.store(false, std::memory_order_relaxed);
  lost_.store(false, std::memory_order_relaxed);
  serves_reads_.store(true, std::memory_order_relaxed);
  unserved_.store(0, std::memory_order_relaxed);
  failed_status_.store(kNoTrouble, std::memory_order_relaxed);
}

void Qp::set_state(QpState next) noexcept {
  UDAPL_TRACE(kDetail, "QP %p: %s -> %s", static_cast<void*>(this), name_of(state_), name_of(next));
  state_ = next;
}

void Qp::start_timer(Timing timing, Clock::duration delay) noexcept {
  timing_ = timing;
  if (timing == Timing::kNothing) return timer_.stop();
  timer_due_ = Clock::now() + delay;
  timer_.start(timer_due_);
}

void Qp::on_timer() noexcept {
  {
    const ScopedLock lock(lock_);
    const trace::About about(init_.context);
    // The call may be of an earlier start.
    if (timing_ == Timing::kNothing || Clock::now() < timer_due_) return;
    const Timing timing = std::exchange(timing_, Timing::kNothing);
    if (timing == Timing::kConnect) {
      UDAPL_TRACE(kNormal, "QP %p: no answer within %u us", static_cast<void*>(this),
                  request_timeout_us_);
      return take(QpEvent::kTooLate);
    }
    if (timing == Timing::kAccept) {
      UDAPL_TRACE(kNormal, "QP %p: accepted, but the peer says nothing more within %u ms",
                  static_cast<void*>(this), adapter_.environment().rtu_timeout_ms);
      return take(QpEvent::kTooLate);
    }
    if (timing == Timing::kSrqRelease) return gate_.post(kSrqReleased);
  }
  look_for_drain();
}

// ---- the rest ----------------------------------------------------------------------------------

transport::Endpoints Qp::endpoints() const noexcept {
  const ScopedLock lock(lock_);
  return endpoints_;
}

int Qp::held() const noexcept { return own_receives_ ? sink_.receives_held() : 0; }

// Messages of a connection end in the order in which they take buffers, so the span is the number.
transport::ReceiveCounts Qp::receive_counts() const noexcept {
  const int now = held();
  return {now, now};
}

void Qp::set_watermarks(int soft, int hard) noexcept {
  const ScopedLock lock(lock_);
  soft_mark_ = soft;
  hard_mark_ = hard;
  watermarked_.store(soft >= 0 || hard >= 0, std::memory_order_relaxed);
  update_receives();
  reported_failures_.post();  // looks whether one is exceeded already
}

// Called by the driver, without locks; the sink call comes last, it may destroy us.
void Qp::deliver(unsigned call) noexcept {
  std::array<std::byte, sizeof peer_data_> data;
  transport::PrivateData from_peer;
  transport::BreakCause cause;
  {
    const ScopedLock lock(lock_);
    from_peer = {data.data(), peer_data_size_};
    std::copy_n(peer_data_.begin(), peer_data_size_, data.begin());
    cause = broken_cause_;
  }
  switch (call) {
    case kEstablished:
      return sink_.on_established(from_peer);
    case kRejected:
      return sink_.on_rejected(from_peer);
    case kRefused:
      return sink_.on_refused();
    case kUnreachable:
      return sink_.on_unreachable();
    case kTimedOut:
      return sink_.on_timed_out();
    case kAcceptFailed:
      return sink_.on_accept_failed();
    case kAsyncError:
      return sink_.on_async_error();
    case kDisconnected:
      return sink_.on_disconnected();
    case kBroken:
      return sink_.on_broken(cause);
    case kSoftWatermark:
      return sink_.on_soft_watermark();
    default:
      return sink_.on_srq_released();
  }
}

}  // namespace udapl::verbs
