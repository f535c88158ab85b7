// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Queue: the ibv_qp and its states, and findings about the connection.
#include "providers/verbs/queue.h"

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/srq.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace udapl::verbs {

using transport::QpInit;

namespace {

// 0.64 ms, as OpenFabrics requests on InfiniBand; rdma_cm's own value 0 means 0.65 s.
constexpr std::uint8_t kRnrTimer = 12;

std::uint8_t depth(int ours, int limit) noexcept {
  // 254 at most, because 255 has a special meaning.
  return static_cast<std::uint8_t>(std::clamp(std::min(ours, limit), 0, 254));
}

// The path has the MTU of the active side's port; the port at the other end must support it.
std::string mtu_advice(const Device& device, const ibv_qp_attr& attr, int mask) {
  const auto bytes = [](ibv_mtu mtu) { return std::to_string(128U << mtu); };
  if ((mask & IBV_QP_PATH_MTU) == 0 || attr.path_mtu <= device.port_attr.active_mtu) return {};
  return "; the path's MTU is " + bytes(attr.path_mtu) + ", that of " + device.name + " port " +
         std::to_string(device.port) + " only " + bytes(device.port_attr.active_mtu) +
         "; try: the same MTU for the interfaces of both hosts";
}

Cq& cq_of(transport::Cq* cq) noexcept { return *static_cast<Cq*>(cq); }

// Whether only solicited receives notify. If the device cannot distinguish them, all receives do.
bool solicited_only(const Adapter& adapter, const QpInit& init) noexcept {
  return init.solicited_only && adapter.device().wakes_for_solicited();
}

}  // namespace

Queue::Queue(QpShared& shared, const QpInit& init, const Call& report)
    : own_receives_(init.srq == nullptr),
      extensions_(shared.adapter.attributes().extension == DAT_EXTENSION_IB),
      request_regions_(shared.adapter.memory()),
      receive_regions_(shared.adapter.memory()),
      shared_(shared),
      memory_(shared.adapter.memory()),
      reports_(shared.adapter.reactor(), report) {}

// ---- the verbs QP ------------------------------------------------------------------------------

void Queue::attach(const ibv_qp& qp, const QpInit& init) {
  Cq& request_cq = cq_of(init.request_cq);
  request_cq.attach(*this, qp.qp_num, init.context, Cq::Role::kRequest, false);
  try {
    cq_of(init.recv_cq)
        .attach(*this, qp.qp_num, init.context, Cq::Role::kReceive,
                solicited_only(shared_.adapter, init), static_cast<Srq*>(init.srq));
  } catch (...) {
    request_cq.detach(qp.qp_num, Cq::Role::kRequest, false);
    throw;
  }
  request_cq.expect_unseen(init.max_unseen);
}

void Queue::detach(std::uint32_t number, const QpInit& init) noexcept {
  cq_of(init.request_cq).detach(number, Cq::Role::kRequest, false);
  cq_of(init.request_cq).end_unseen(init.max_unseen);
  cq_of(init.recv_cq).detach(number, Cq::Role::kReceive, solicited_only(shared_.adapter, init));
}

void Queue::change_notifications(const QpInit& init) noexcept {
  const bool before = solicited_only(shared_.adapter, shared_.init);
  const bool after = solicited_only(shared_.adapter, init);
  if (before != after) recv_cq_->exchange_receiver(before, after);
}

void Queue::exchange(QpHandle fresh, const QpInit& init, QpHandle* former) {
  attach(*fresh, init);
  *former = std::exchange(handle_, std::move(fresh));
  shared_.init = init;
  qp_ = handle_.get();
  post_send_ = qp_->context->ops.post_send;
  post_recv_ = qp_->context->ops.post_recv;
  max_inline_ = shared_.adapter.max_inline();
  request_cq_ = &cq_of(init.request_cq);
  recv_cq_ = &cq_of(init.recv_cq);
  request_regions_.reset(qp_->pd);
  receive_regions_.reset(qp_->pd);
  update_receives();
  prepare_requests();
  binds_.reset(static_cast<std::uint32_t>(std::max(init.max_request, 1)));
}

// Called without the lock: ibv_destroy_qp waits for asynchronous events that are being handled,
// which acquire it.
void Queue::retire(QpHandle former, const QpInit& init) noexcept {
  if (former == nullptr) return;
  const std::uint32_t number = former->qp_num;
  // Windows outlive the QP. The scan finds flushed binds that were not dequeued.
  if (binds_.any()) cq_of(init.request_cq).scan();
  memory_.qp_ends(*this);
  former.reset();
  detach(number, init);
}

bool Queue::change_state(ibv_qp_state state, ibv_qp_attr& attr, int mask) noexcept {
  const Environment& environment = shared_.adapter.environment();
  if (state == IBV_QPS_INIT) {
    if (attr.pkey_index == kInitialPkey) return true;
    mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX;  // everything else stays as it is
  }
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    attr.max_dest_rd_atomic = depth(shared_.init.max_rdma_read_in, attr.max_dest_rd_atomic);
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    attr.max_rd_atomic = depth(shared_.init.max_rdma_read_out, attr.max_rd_atomic);
    unserved_reads_.set_served(attr.max_rd_atomic != 0);
  }
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0)
    attr.min_rnr_timer = environment.rnr_timer.value_or(kRnrTimer);
  if ((mask & IBV_QP_TIMEOUT) != 0 && environment.ack_timer.has_value())
    attr.timeout = *environment.ack_timer;
  const int error =
      point::ended("ibv_modify_qp", name_of(state), ::ibv_modify_qp(qp_, &attr, mask));
  if (error == 0) return true;
  static constinit trace::RateLimit limit;
  UDAPL_TRACE_LIMITED(limit, kError, "QP %p: ibv_modify_qp to %s: %s%s",
                      static_cast<const void*>(&shared_.qp), name_of(state),
                      ErrnoText(error).c_str(),
                      mtu_advice(shared_.adapter.device(), attr, mask).c_str());
  errno = error;
  return false;
}

void Queue::enter_error() noexcept {
  in_error_.store(true, std::memory_order_release);
  update_receives();
  if (binds_.any()) memory_.qp_fails(*this);
  flush();
}

void Queue::leave_error() noexcept {
  in_error_.store(false, std::memory_order_relaxed);
  update_receives();
}

void Queue::flush() noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  const int error = point::ended("ibv_modify_qp", "ERR", ::ibv_modify_qp(qp_, &attr, IBV_QP_STATE));
  static constinit trace::RateLimit limit;
  if (error != 0 && !shared_.adapter.dead())
    UDAPL_TRACE_LIMITED(limit, kError, "QP %p: ibv_modify_qp to ERR: %s",
                        static_cast<const void*>(&shared_.qp), ErrnoText(error).c_str());
}

// ---- findings ----------------------------------------------------------------------------------

void Queue::clear() noexcept {
  marked_ = false;
  findings_.clear();
  unserved_reads_.clear();
}

// Posts an empty write behind the last request: when it completes, all earlier requests have
// (docs/adr/0010).
void Queue::post_marker() noexcept {
  ibv_send_wr marker{};
  marker.wr_id = kMarker;
  marker.opcode = IBV_WR_RDMA_WRITE;
  // The fence: some devices complete a write before a read that was posted first.
  marker.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  ibv_send_wr* bad = nullptr;
  marked_ = ::ibv_post_send(qp_, &marker, &bad) == 0;  // false: the queue is full at the moment
}

void Queue::on_marker() noexcept {
  findings_.set_drained();
  reports_.post();
}

void Queue::on_failed_work(std::uint64_t wr_id, ibv_wc_status status) noexcept {
  if (is_bind(wr_id))
    if (const std::uint64_t number = binds_.latest(wr_id); number != 0) memory_.bind_failed(number);
  if (wr_id == kMarker) findings_.set_lost(false);  // requests after the marker report no loss
  if (in_error_.load(std::memory_order_relaxed)) return;
  if (findings_.add_failure(status)) reports_.post();
}

// ---- watermarks --------------------------------------------------------------------------------

int Queue::held() const noexcept { return own_receives_ ? shared_.sink.receives_held() : 0; }

void Queue::set_watermarks(int soft, int hard) noexcept {
  watermarks_.set(soft, hard);
  update_receives();
  reports_.post();  // checks whether one is exceeded already
}

Watermarks::Exceeded Queue::check_watermarks() noexcept {
  const Watermarks::Exceeded exceeded = watermarks_.check(held());
  update_receives();
  return exceeded;
}

}  // namespace udapl::verbs
