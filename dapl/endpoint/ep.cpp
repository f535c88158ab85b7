// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/ep.h"

#include "dapl/events/async_evds.h"
#include "dapl/objects/await_posts.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"
#include "dapl/objects/trace_points.h"

#include <algorithm>

namespace udapl::dapl {

Ep::Ep(Ia& owner, const EpConfig& config, DAT_EP_STATE state)
    : EpQueues(owner.provider, &owner, state, config.attr.max_request_dtos,
               config.srq != nullptr ? 0 : config.attr.max_recv_dtos, config.srq != nullptr),
      idle_poll_(owner.adapter().idle_poll()),
      config_(config) {
  preset_soft_watermark();
}

Ep::~Ep() {
  end_posts();
  std::unique_ptr<transport::Qp> qp;
  {
    const ScopedLock lock(mutex_);
    // The EP's completions return buffers to the SRQ, so they are converted to events, not dropped.
    if (config_.srq != nullptr && config_.recv_evd != nullptr) config_.recv_evd->reap();
    if (discard_ != nullptr) discard_->drain();
    qp = std::move(qp_);
  }
  qp.reset();  // waits for a running report, which acquires the lock
  const ScopedLock lock(mutex_);
  forget_completions();
  keep_peer_data();
}

// Events of the connection that point at the private data may still be queued in the EVD.
void Ep::keep_peer_data() noexcept {
  PeerDataList data = connection_.clear();
  if (config_.connect_evd != nullptr && !data.empty()) config_.connect_evd->keep(std::move(data));
}

void Ep::end_posts() noexcept {
  {
    const ScopedLock lock(mutex_);
    {
      const ScopedLock requests_lock(requests.lock);
      store_state(kResetting);  // in this state reports of the transport have no effect either
    }
    receive_gate.store(kShut, std::memory_order_relaxed);
  }
  await_posts(*this);  // a post that found the gate open uses receives.qp
  const ScopedLock receives_lock(receives.lock);
  receives.qp = nullptr;
}

Result<Ep*> Ep::make(Ia& ia, const EpConfig& config, DAT_EP_STATE state) {
  if (const Status status = check_config(ia, config, DAT_INVALID_ARG6); !status.ok()) return status;
  if (const Status status = check_directions(config, DAT_INVALID_ARG6); !status.ok()) return status;
  if (ia.full<Ep>(ia.attributes().max_eps))
    UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP, "already %d EPs",
                 ia.attributes().max_eps);
  Owned<Ep> ep = make_object<Ep>(ia, config, state);
  {
    const ScopedLock lock(ep->mutex_);
    if (const Status status = ep->set_up(); !status.ok()) return status;
  }
  return &ia.adopt(std::move(ep));
}

Status Ep::set_up() {
  bindings_ = std::make_unique<EpBindings>(config_);
  bindings_->attach();
  if (config_.pz != nullptr) {
    if (const Status status = make_discard(config_, &discard_); !status.ok()) return status;
    auto qp = ia->adapter().create_qp(qp_init(config_, discard_.get()));
    if (!qp.ok()) {
      UDAPL_TRACE(kNormal, "creating the QP failed: 0x%x", qp.status().code());
      return qp.status();
    }
    qp_ = *std::move(qp);
    arm_watermarks();
  }
  publish();
  return Status();
}

Status Ep::make_discard(const EpConfig& config, std::unique_ptr<DiscardCq>* discard) {
  if (config.recv_evd != nullptr && config.request_evd != nullptr) return Status();
  const bool shared = config.srq != nullptr && config.recv_evd == nullptr;
  const int buffers = shared ? config.srq->max_recv_dtos() : config.attr.max_recv_dtos;
  auto made = DiscardCq::make(ia->adapter(), buffers + config.attr.max_request_dtos, shared);
  if (!made.ok()) return made.status();
  *discard = *std::move(made);
  return Status();
}

namespace {

// Of this many suppressed requests in a row, the last one is signalled, so that slots become free.
std::uint32_t silent_run(const DAT_EP_ATTR& attr) noexcept {
  constexpr DAT_COUNT kLongest = 32;
  return static_cast<std::uint32_t>(std::clamp(attr.max_request_dtos / 2, 1, kLongest));
}

}  // namespace

transport::QpInit Ep::qp_init(const EpConfig& config, DiscardCq* discard) noexcept {
  const DAT_EP_ATTR& attr = config.attr;
  const EpLimits limits = effective_limits(ia->attributes(), config);
  transport::QpInit init{};
  init.context = static_cast<EpQueues*>(this);
  init.sink = &sink_;
  init.pd = &config.pz->pd();
  init.recv_cq = config.recv_evd != nullptr ? config.recv_evd->cq() : &discard->cq();
  init.request_cq = config.request_evd != nullptr ? config.request_evd->cq() : &discard->cq();
  init.srq = config.srq != nullptr ? &config.srq->queue() : nullptr;
  init.max_recv = config.srq != nullptr ? 0 : attr.max_recv_dtos;
  init.max_request = attr.max_request_dtos;
  init.max_unseen = attr.max_request_dtos / static_cast<int>(silent_run(attr)) + 1;
  init.max_recv_segments = limits.recv_segments;
  init.max_request_segments =
      std::max({limits.request_segments, limits.read_segments, limits.write_segments});
  init.max_rdma_read_in = limits.rdma_read_in;
  init.max_rdma_read_out = limits.rdma_read_out;
  init.delayed_ack = config.delayed_ack;
  init.solicited_only = completion_mode(attr.recv_completion_flags) == CompletionMode::kSolicited;
  return init;
}

void Ep::publish() noexcept {
  const DAT_EP_ATTR& attr = config_.attr;
  const transport::Attributes& limits = ia->attributes();
  const EpLimits own = effective_limits(limits, config_);
  const auto unsignalled = [](DAT_COMPLETION_FLAGS flags) {
    return static_cast<std::uint32_t>(flags) & DAT_COMPLETION_UNSIGNALLED_FLAG;
  };
  {
    const ScopedLock lock(requests.lock);
    requests.legal_flags = DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |
                           DAT_COMPLETION_BARRIER_FENCE_FLAG |
                           unsignalled(attr.request_completion_flags);
    requests.max_segments = static_cast<std::uint32_t>(own.request_segments);
    requests.max_read_segments = static_cast<std::uint32_t>(own.read_segments);
    requests.max_write_segments = static_cast<std::uint32_t>(own.write_segments);
    // These are the transport's limits. As in OpenFabrics, the sizes in the consumer's attributes
    // are not enforced (docs/compatibility.md C78).
    requests.max_message = limits.max_message_size;
    requests.max_rdma = limits.max_rdma_size;
    requests.silent = 0;
    requests.max_silent = silent_run(attr) - 1;
    requests.can_invalidate = limits.send_invalidate;
    requests.can_read_to_rmr = limits.read_to_rmr;
    requests.evd = config_.request_evd;
    requests.discard = config_.request_evd == nullptr ? discard_.get() : nullptr;
    requests.pz = config_.pz;
    requests.qp = qp_.get();
    store_state(posting_state());
  }
  const ScopedLock lock(receives.lock);
  receives.legal_flags = unsignalled(attr.recv_completion_flags);
  receives.max_segments = static_cast<std::uint32_t>(own.recv_segments);
  receives.evd = config_.recv_evd;
  receives.discard = config_.recv_evd == nullptr ? discard_.get() : nullptr;
  receives.qp = config_.srq == nullptr ? qp_.get() : nullptr;
  const bool open = receives.qp != nullptr && receives.max_segments != 0;
  receive_gate.store(open ? 0 : kShut, std::memory_order_relaxed);
}

void Ep::forget_completions() noexcept {
  if (config_.recv_evd != nullptr) config_.recv_evd->forget(*this);
  if (config_.request_evd != nullptr && config_.request_evd != config_.recv_evd)
    config_.request_evd->forget(*this);
  if (discard_ != nullptr) discard_->drain();
}

void Ep::set_state(DAT_EP_STATE to, EpInput why) noexcept {
  if (trace::enabled(trace::kNormal)) [[unlikely]]
    point::state(*this, why, state(), to);
  store_state(to);
}

void Ep::store_state(DAT_EP_STATE to) noexcept {
  const bool open = takes_requests(to) && qp_ != nullptr && config_.request_evd != nullptr;
  request_gate.store(open ? 0 : kShut, std::memory_order_relaxed);
  set_posting_state(to);
}

Status Ep::check_ready() const {
  if (config_.pz == nullptr || config_.connect_evd == nullptr || qp_ == nullptr)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY, "ep %p has no %s",
                 static_cast<const void*>(this), config_.pz == nullptr ? "PZ" : "connect EVD");
  return Status();
}

Status Ep::apply(EpInput input) {
  const ScopedLock lock(mutex_);
  const EpStep change = step(state(), input);
  if (change.verdict != EpVerdict::kProceed) {
    const Status status(wrong_state(state()));
    UDAPL_EXPLAIN(kNormal, status.code(), "ep %p: %s in state %s", static_cast<void*>(this),
                  name(input), name(state()));
    return status;
  }
  set_state(change.next, input);
  return Status();
}

void Ep::set_endpoints(const transport::Endpoints& ends) {
  const ScopedLock lock(mutex_);
  connection_.set_endpoints(ends);
}

namespace {

Status being_freed(const Ep& ep) noexcept {
  UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP, "ep %p is being freed",
               static_cast<const void*>(&ep));
}

}  // namespace

Status Ep::begin_free() {
  const ScopedLock lock(mutex_);
  if (!is_live<Ep>(*this)) return being_freed(*this);
  const DAT_EP_STATE now = posting_state();
  if (now == kResetting || step(now, EpInput::kFree).verdict != EpVerdict::kProceed)
    UDAPL_REFUSE(DAT_INVALID_STATE, wrong_state(state()) & DAT_SUBTYPE_MASK,
                 "ep %p: free in state %s", static_cast<void*>(this), name(state()));
  if (!invalidate(*this)) return being_freed(*this);
  // With an SRQ the work is flushed first, so that its completions return the buffers. Without one
  // they are not needed, and there may be more than the EVD has room for: the destructor of the QP
  // ends the connection.
  const bool live = is_connecting(now) || is_connected(now);
  if (live && config_.srq != nullptr) qp_->disconnect(transport::DisconnectMode::kAbrupt);
  set_state(DAT_EP_STATE_DISCONNECTED, EpInput::kFree);
  return Status();
}

// ---- watermarks -------------------------------------------------------------------------------

// OpenFabrics does not read the attribute, so programs leave it uninitialised or 0: it has no
// effect without an SRQ, and 0 sets no mark (docs/compatibility.md C79, docs/compatibility.md C80).
void Ep::preset_soft_watermark() noexcept {
  if (config_.srq == nullptr) return;
  const DAT_COUNT mark = config_.attr.srq_soft_hw;
  soft_watermark_ = mark > 0 ? mark : DAT_WATERMARK_INFINITE;
}

void Ep::arm_watermarks() noexcept {
  if (qp_ != nullptr &&
      (soft_watermark_ != DAT_WATERMARK_INFINITE || hard_watermark_ != DAT_WATERMARK_INFINITE))
    qp_->set_watermarks(soft_watermark_, hard_watermark_);
}

Status Ep::set_watermarks(DAT_COUNT soft, DAT_COUNT hard) {
  const ScopedLock lock(mutex_);
  const DAT_COUNT most =
      config_.srq != nullptr ? config_.srq->max_recv_dtos() : config_.attr.max_recv_dtos;
  const auto bad = [most](DAT_COUNT mark) {
    return mark != DAT_WATERMARK_INFINITE && (mark < 0 || mark > most);
  };
  if (bad(soft))
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "soft watermark %d, at most %d", soft,
                 most);
  if (bad(hard))
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "hard watermark %d, at most %d", hard,
                 most);
  soft_watermark_ = config_.attr.srq_soft_hw = soft;
  hard_watermark_ = hard;
  if (qp_ != nullptr) qp_->set_watermarks(soft, hard);
  return Status();
}

void Ep::Sink::on_soft_watermark() noexcept {
  {
    const ScopedLock lock(ep_.mutex_);
    ep_.soft_watermark_ = ep_.config_.attr.srq_soft_hw = DAT_WATERMARK_INFINITE;
  }
  report_async(*ep_.ia, DAT_ASYNC_ERROR_EP_BROKEN, &ep_, DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
}

void Ep::Sink::on_async_error() noexcept {
  report_async(*ep_.ia, DAT_ASYNC_ERROR_EP_BROKEN, &ep_, DAT_EP_TRANSFER_TO_ERROR);
}

// Verbs devices report by an asynchronous event that a QP uses no more buffers of its SRQ, and
// programs wait for this event before they free the EP (docs/compatibility.md C2).
void Ep::Sink::on_srq_released() noexcept {
  report_async(*ep_.ia, DAT_ASYNC_ERROR_EP_BROKEN, &ep_, DAT_EP_OTHER_ERROR);
}

// ---- table entries ----------------------------------------------------------------------------

namespace calls {

DAT_RETURN ep_free(DAT_EP_HANDLE handle) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    if (const Status status = ep->begin_free(); !status.ok()) return status;
    ep->ia->destroy(*ep);
    return Status();
  });
}

DAT_RETURN ep_set_watermark(DAT_EP_HANDLE handle, DAT_COUNT soft, DAT_COUNT hard) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    return ep->set_watermarks(soft, hard);
  });
}

}  // namespace calls
}  // namespace udapl::dapl
