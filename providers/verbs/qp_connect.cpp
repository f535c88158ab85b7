// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: how a connection is set up, from both sides.
#include "common/cause.h"
#include "common/errno_text.h"
#include "common/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cm.h"
#include "providers/verbs/cm_address.h"
#include "providers/verbs/cm_wire.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace udapl::verbs {

using transport::PrivateData;

namespace {

// 0.64 ms, as existing providers on InfiniBand ask; rdma_cm's own 0 means 0.65 s.
constexpr std::uint8_t kRnrTimer = 12;
// rdma_cm of some kernels sets bits that only they understand.
constexpr int kKnownQpMask = ~0xe00000;

std::uint8_t depth(int ours, int limit) noexcept {
  // 255 is a value with a meaning of its own.
  return static_cast<std::uint8_t>(std::clamp(std::min(ours, limit), 0, 254));
}

Status no_gid(const Device& device, const transport::SocketAddress& peer) noexcept {
  UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_ADDRESS),
                "%s port %d has no IP address, so peers are known by their GIDs, not as %s",
                device.name.c_str(), device.port, to_text(peer).c_str());
  return failure(DAT_INVALID_ADDRESS);
}

// Both ports have to have the MTU that the active side's has chosen for the path.
std::string mtu_advice(const Device& device, const ibv_qp_attr& attr, int mask) {
  const auto bytes = [](ibv_mtu mtu) { return std::to_string(128U << mtu); };
  if ((mask & IBV_QP_PATH_MTU) == 0 || attr.path_mtu <= device.port_attr.active_mtu) return {};
  return "; the path's MTU is " + bytes(attr.path_mtu) + ", that of " + device.name + " port " +
         std::to_string(device.port) + " only " + bytes(device.port_attr.active_mtu) +
         "; try: the same MTU for the interfaces of both hosts";
}

PrivateData data_of(const rdma_conn_param& param) noexcept {
  return {static_cast<const std::byte*>(param.private_data),
          param.private_data != nullptr ? param.private_data_len : 0U};
}

}  // namespace

// ---- active side -------------------------------------------------------------------------------

Status Qp::connect(const transport::ConnectRequest& request) {
  const Device& device = adapter_.device();
  if (request.private_data.size() > wire::request_room(device.carrier()))
    return failure(DAT_INVALID_PARAMETER);
  if (device.by_gid && request.remote.family() != AF_INET6) return no_gid(device, request.remote);
  Result<std::unique_ptr<CmId>> id = adapter_.cm().make_id(*this);  // goes, if it goes, unlocked
  if (!id.ok()) return id.status();
  CmAddress from = to_cm(device, device.address, 0);
  CmAddress to = to_cm(device, request.remote, port_of(request.conn_qual));

  const ScopedLock lock(lock_);
  if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
  clear_connection();
  const auto timeout_ms = static_cast<int>(adapter_.environment().arp_timeout_ms);
  if (point::ended_cm("rdma_resolve_addr",
                      ::rdma_resolve_addr((*id)->get(), &from.any, &to.any, timeout_ms)) != 0) {
    const int error = errno;
    const Status status = error == EINVAL || error == EAFNOSUPPORT ? failure(DAT_INVALID_ADDRESS)
                          : error == ENOMEM
                              ? failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)
                              : Status();
    if (!status.ok()) {
      UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "resolving %s",
                          to_text(from_cm(&to.any)).c_str());
      return status;
    }
    UDAPL_TRACE(kNormal, "QP %p: resolving %s: %s", static_cast<void*>(this),
                to_text(from_cm(&to.any)).c_str(), ErrnoText(error).c_str());
    enter_error();
    gate_.post(kUnreachable);
    return Status();
  }
  active_ = true;
  request_ = wire::make_request(request.private_data, device.carrier());
  request_timeout_us_ = request.timeout_us;
  endpoints_.local = device.address;
  endpoints_.remote = request.remote;
  endpoints_.remote_port = request.conn_qual;
  set_state(State::kResolvingAddress);
  id_ = *std::move(id);
  if (request.timeout_us != DAT_TIMEOUT_INFINITE)
    start_timer(Timing::kConnect, std::chrono::microseconds(request.timeout_us));
  return Status();
}

// By the driver, so ids may be retired under the lock.
void Qp::on_cm_event(const rdma_cm_event& event) noexcept {
  const ScopedLock lock(lock_);
  const trace::About about(init_.context);
  point::event(event);
  if (id_ == nullptr || id_->get() != event.id) return;  // we have done with it
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return on_address_resolved(*event.id);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return send_request();
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return on_resolving_failed(event);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return on_reply(event);
    case RDMA_CM_EVENT_ESTABLISHED:
      return on_established(event);
    case RDMA_CM_EVENT_REJECTED:
      return on_rejected(event);
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return on_lost(event);
    default:
      // ADDR_CHANGE is a hint: the connection goes on over the path that it has.
      UDAPL_TRACE(kNormal, "QP %p: %s, status %d", static_cast<void*>(this), name_of(event.event),
                  event.status);
  }
}

void Qp::on_address_resolved(const rdma_cm_id& id) noexcept {
  if (state_ != State::kResolvingAddress) return;
  if (!on_our_port(id)) return fail_setup(kUnreachable);
  tries_ = 0;
  set_state(State::kResolvingRoute);
  const auto timeout_ms = static_cast<int>(adapter_.environment().route_timeout_ms);
  if (point::ended_cm("rdma_resolve_route", ::rdma_resolve_route(id_->get(), timeout_ms)) == 0)
    return;
  UDAPL_TRACE(kNormal, "QP %p: rdma_resolve_route: %s", static_cast<void*>(this),
              ErrnoText(errno).c_str());
  fail_setup(kUnreachable);
}

// A time-out is worth another try: the address was asked for by a datagram that may be lost.
void Qp::on_resolving_failed(const rdma_cm_event& event) noexcept {
  const Environment& environment = adapter_.environment();
  const bool address = event.event == RDMA_CM_EVENT_ADDR_ERROR;
  const std::uint32_t retries = address ? environment.arp_retries : environment.route_retries;
  UDAPL_TRACE(kNormal, "QP %p: %s: %s, try %u of %u", static_cast<void*>(this),
              name_of(event.event), ErrnoText(-event.status).c_str(), tries_ + 1, retries + 1);
  if (event.status == -ETIMEDOUT && tries_ < retries) {
    ++tries_;
    CmAddress to = to_cm(adapter_.device(), endpoints_.remote, port_of(endpoints_.remote_port));
    const int failed =
        address ? ::rdma_resolve_addr(id_->get(), nullptr, &to.any,
                                      static_cast<int>(environment.arp_timeout_ms))
                : ::rdma_resolve_route(id_->get(), static_cast<int>(environment.route_timeout_ms));
    if (failed == 0) return;
    UDAPL_TRACE(kNormal, "QP %p: cannot try again: %s", static_cast<void*>(this),
                ErrnoText(errno).c_str());
  }
  fail_setup(kUnreachable);
}

void Qp::send_request() noexcept {
  if (state_ != State::kResolvingRoute) return;
  const ibv_device_attr& limits = adapter_.device().attr.orig_attr;
  const Environment& environment = adapter_.environment();
  rdma_conn_param param{};
  param.private_data = request_.bytes.data();
  param.private_data_len = request_.size;
  param.responder_resources = depth(init_.max_rdma_read_in, limits.max_qp_rd_atom);
  param.initiator_depth = depth(init_.max_rdma_read_out, limits.max_qp_init_rd_atom);
  param.flow_control = request_.sized ? 0 : 1;
  param.retry_count = environment.retry_count;
  param.rnr_retry_count = environment.rnr_retry;
  param.srq = init_.srq != nullptr ? 1 : 0;
  param.qp_num = qp_->qp_num;
  set_state(State::kConnecting);
  if (point::ended_cm("rdma_connect", ::rdma_connect(id_->get(), &param)) == 0) return;
  const int error = errno;
  UDAPL_TRACE(kNormal, "QP %p: rdma_connect: %s", static_cast<void*>(this),
              ErrnoText(error).c_str());
  // Software iWARP makes its TCP connection here, and hears here that nobody listens.
  fail_setup(error == ECONNREFUSED ? kRefused : kUnreachable);
}

// The peer has accepted. The QP becomes ready before the peer is told that it may send.
void Qp::on_reply(const rdma_cm_event& event) noexcept {
  if (state_ != State::kConnecting) return;
  keep(wire::read_reply(data_of(event.param.conn), adapter_.device().carrier()));
  if (to_ready() && point::ended_cm("rdma_establish", ::rdma_establish(id_->get())) == 0)
    return established();
  UDAPL_TRACE(kNormal, "QP %p: the connection cannot be completed: %s", static_cast<void*>(this),
              ErrnoText(errno).c_str());
  ::rdma_reject(id_->get(), nullptr, 0);
  fail_setup(kRefused);
}

// Passive side, and the active side of iWARP, whose QP the kernel has made ready.
void Qp::on_established(const rdma_cm_event& event) noexcept {
  if (state_ == State::kConnecting)
    keep(wire::read_reply(data_of(event.param.conn), adapter_.device().carrier()));
  else if (state_ != State::kAccepting)
    return;
  established();
}

void Qp::on_rejected(const rdma_cm_event& event) noexcept {
  const bool iwarp = adapter_.device().iwarp();
  UDAPL_TRACE(kNormal, "QP %p: rejected, %d: %s", static_cast<void*>(this), event.status,
              reject_reason(event.status, iwarp));
  if (state_ == State::kAccepting) return fail_setup(kAcceptFailed);
  if (state_ != State::kConnecting) return;
  const wire::Rejection rejection =
      wire::read_reject(data_of(event.param.conn), adapter_.device().carrier());
  if (rejection.by_consumer && (iwarp || event.status == kConsumerReject)) {
    keep(rejection.data);
    return fail_setup(kRejected);
  }
  fail_setup(iwarp && event.status == -ETIMEDOUT ? kUnreachable : kRefused);
}

void Qp::on_lost(const rdma_cm_event& event) noexcept {
  UDAPL_TRACE(kNormal, "QP %p: %s, status %d", static_cast<void*>(this), name_of(event.event),
              event.status);
  if (!connected()) return fail_setup(state_ == State::kAccepting ? kAcceptFailed : kUnreachable);
  if (event.event == RDMA_CM_EVENT_DISCONNECTED) return end_connection(kDisconnected);
  // The device has not given up yet, and now never will. The oldest request fails nevertheless by
  // the loss and the others are flushed, as if it had; the marker is behind those of now.
  lost_.store(event.event == RDMA_CM_EVENT_UNREACHABLE, std::memory_order_release);
  broken_why_ = transport::BreakReason::kTransportLost;
  end_connection(kBroken);
  post_marker();
}

// ---- passive side ------------------------------------------------------------------------------

Status Qp::accept(std::unique_ptr<CmId>& id, const PeerOffer& offer, PrivateData private_data) {
  CmId* const taken = id.get();
  {
    const ScopedLock lock(lock_);
    if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
    if (!on_our_port(*id->get())) return failure(DAT_INTERNAL_ERROR);
    clear_connection();
    active_ = false;
    endpoints_ = offer.endpoints;
    set_state(State::kAccepting);
    id_ = std::move(id);
  }
  // Not locked: it waits for an event that the request is being told. What comes now is ours.
  taken->set_owner(*this);

  std::unique_ptr<CmId> unused;
  {
    const ScopedLock lock(lock_);
    const trace::About about(init_.context);
    if (state_ != State::kAccepting) return Status();  // lost already, and the sink will know
    const bool gone = offer.gone.load(std::memory_order_acquire);
    if (!gone && to_ready() && send_reply(offer, private_data)) {
      // A peer that gave up just before the request got here cannot tell us, and the kernel would
      // repeat the reply for a minute.
      start_timer(Timing::kAccept,
                  std::chrono::milliseconds(adapter_.environment().rtu_timeout_ms));
      return Status();
    }
    enter_error();
    gate_.post(kAcceptFailed);
    unused = std::move(id_);
    if (!gone) ::rdma_reject(unused->get(), nullptr, 0);
  }
  adapter_.cm().retire(std::move(unused), ConnectionManager::Farewell::kAbort);
  return Status();
}

bool Qp::send_reply(const PeerOffer& offer, PrivateData data) noexcept {
  const ibv_device_attr& limits = adapter_.device().attr.orig_attr;
  const wire::Message message = wire::make_reply(data, adapter_.device().carrier());
  rdma_conn_param param{};
  param.private_data = message.bytes.data();
  param.private_data_len = message.size;
  param.responder_resources =
      depth(std::min(init_.max_rdma_read_in, offer.read_out), limits.max_qp_rd_atom);
  param.initiator_depth =
      depth(std::min(init_.max_rdma_read_out, offer.read_in), limits.max_qp_init_rd_atom);
  param.flow_control = 1;
  param.rnr_retry_count = adapter_.environment().rnr_retry;
  param.srq = init_.srq != nullptr ? 1 : 0;
  param.qp_num = qp_->qp_num;
  if (point::ended_cm("rdma_accept", ::rdma_accept(id_->get(), &param)) == 0) return true;
  UDAPL_TRACE(kNormal, "QP %p: rdma_accept: %s", static_cast<void*>(this),
              ErrnoText(errno).c_str());
  return false;
}

// ---- both --------------------------------------------------------------------------------------

bool Qp::on_our_port(const rdma_cm_id& id) const noexcept {
  const Device& device = adapter_.device();
  if (id.verbs != nullptr && id.port_num == device.port &&
      ::ibv_get_device_guid(id.verbs->device) == ::ibv_get_device_guid(device.context->device))
    return true;
  UDAPL_TRACE(kError, "QP %p of %s port %d: the connection goes over %s port %d",
              static_cast<const void*>(this), device.name.c_str(), device.port,
              id.verbs != nullptr ? ::ibv_get_device_name(id.verbs->device) : "no device",
              id.port_num);
  return false;
}

// What rdma_cm has agreed upon, with our limits and what the administrator wants.
bool Qp::change_state(ibv_qp_state state) noexcept {
  const Environment& environment = adapter_.environment();
  ibv_qp_attr attr{};
  attr.qp_state = state;
  int mask = 0;
  if (::rdma_init_qp_attr(id_->get(), &attr, &mask) != 0) {
    UDAPL_TRACE(kNormal, "QP %p: rdma_init_qp_attr for %s: %s", static_cast<void*>(this),
                name_of(state), ErrnoText(errno).c_str());
    return false;
  }
  mask &= kKnownQpMask;
  if (state == IBV_QPS_INIT) {
    if (attr.pkey_index == kFirstPkey) return true;
    mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX;  // the rest is as it was
  }
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    attr.max_dest_rd_atomic = depth(init_.max_rdma_read_in, attr.max_dest_rd_atomic);
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    attr.max_rd_atomic = depth(init_.max_rdma_read_out, attr.max_rd_atomic);
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0)
    attr.min_rnr_timer = environment.rnr_timer.value_or(kRnrTimer);
  if ((mask & IBV_QP_TIMEOUT) != 0 && environment.ack_timer.has_value())
    attr.timeout = *environment.ack_timer;
  const int error =
      point::ended("ibv_modify_qp", name_of(state), ::ibv_modify_qp(qp_, &attr, mask));
  if (error == 0) return true;
  UDAPL_TRACE(kError, "QP %p: ibv_modify_qp to %s: %s%s", static_cast<void*>(this), name_of(state),
              ErrnoText(error).c_str(), mtu_advice(adapter_.device(), attr, mask).c_str());
  errno = error;
  return false;
}

bool Qp::to_ready() noexcept {
  return change_state(IBV_QPS_INIT) && change_state(IBV_QPS_RTR) && change_state(IBV_QPS_RTS);
}

void Qp::established() noexcept {
  start_timer(Timing::kNothing, {});
  set_state(State::kReady);
  const transport::Endpoints ends = endpoints_of(*id_->get());
  endpoints_.local = ends.local;
  endpoints_.local_port = ends.local_port;
  if (!active_) endpoints_ = ends;
  gate_.post(kEstablished);
  // A failure, or a mark exceeded, from before.
  trouble_.post();
}

void Qp::keep(PrivateData from_peer) noexcept {
  peer_data_size_ = std::min(from_peer.size(), peer_data_.size());
  std::copy_n(from_peer.begin(), peer_data_size_, peer_data_.begin());
}

void Qp::fail_setup(SinkCall call) noexcept {
  enter_error();
  gate_.post(call);
  adapter_.cm().retire(std::move(id_), ConnectionManager::Farewell::kAbort);
}

}  // namespace udapl::verbs
