// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/connection.h"

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "providers/connecting/failures.h"
#include "providers/connecting/socket_address.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/rdma_cm/address.h"
#include "providers/verbs/rdma_cm/connector.h"
#include "providers/verbs/rdma_cm/trace_points.h"
#include "providers/verbs/status.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace udapl::verbs {

using transport::PrivateData;

namespace {

// In some kernels rdma_cm sets bits that only the kernel understands.
constexpr int kKnownQpMask = ~0xe00000;

std::uint8_t depth(int ours, int limit) noexcept {
  // 255 has a special meaning.
  return static_cast<std::uint8_t>(std::clamp(std::min(ours, limit), 0, 254));
}

Status no_gid(const Device& device, const transport::SocketAddress& peer) noexcept {
  UDAPL_EXPLAIN(
      kNormal, dat_error(DAT_INVALID_ADDRESS),
      "%s port %d has no IP address, so peers are addressed by GID, not by an address such as %s",
      device.name.c_str(), device.port, to_text(peer).c_str());
  return failure(DAT_INVALID_ADDRESS);
}

}  // namespace

RdmaConnection::RdmaConnection(Adapter& adapter, RdmaConnector& connector, ConnectionEnd* end,
                               CmState state) noexcept
    : adapter_(adapter),
      connector_(connector),
      active_(state == CmState::kNew),
      end_(end),
      state_(state) {}

RdmaConnection::~RdmaConnection() {
  // If the id is not connected, its destruction notifies the peer.
  connector_.retire(std::move(id_), awaits_peer_ ? RdmaConnector::Teardown::kAwaitPeer
                                                 : RdmaConnector::Teardown::kNow);
}

// ---- active side -------------------------------------------------------------------------------

Result<std::unique_ptr<RdmaConnection>> RdmaConnection::create(
    Adapter& adapter, RdmaConnector& connector, const transport::ConnectRequest& request,
    ConnectionEnd& end) {
  const Device& device = adapter.device();
  if (request.private_data.size() > wire::request_room(carrier_of(device)))
    return failure(DAT_INVALID_PARAMETER);
  if (device.by_gid && request.remote.family() != AF_INET6) return no_gid(device, request.remote);
  std::unique_ptr<RdmaConnection> self(new RdmaConnection(adapter, connector, &end, CmState::kNew));
  Result<std::unique_ptr<CmId>> id = connector.make_id(*self);
  if (!id.ok()) return id.status();
  self->id_ = *std::move(id);
  self->request_ = wire::make_request(request.private_data, carrier_of(device));
  const ScopedLock lock(self->lock_);
  self->endpoints_.local = device.address;
  self->endpoints_.remote =
      device.by_gid ? request.remote : adapted_to(device.address, request.remote);
  self->endpoints_.remote_port = request.conn_qual;
  return self;
}

Result<bool> RdmaConnection::start(const QpTerms& terms) {
  const ScopedLock lock(lock_);
  const Device& device = adapter_.device();
  terms_ = terms;
  CmAddress from = to_cm(device, device.address, 0);
  CmAddress to = to_cm(device, endpoints_.remote, transport::port_of(endpoints_.remote_port));
  const auto timeout_ms = static_cast<int>(adapter_.environment().arp_timeout_ms);
  // Binds the id first, so that the local port is known during the set-up.
  if (point::ended_cm("rdma_bind_addr", ::rdma_bind_addr(id_->get(), &from.any)) != 0 ||
      point::ended_cm("rdma_resolve_addr",
                      ::rdma_resolve_addr(id_->get(), nullptr, &to.any, timeout_ms)) != 0) {
    const int error = errno;
    const Status status = error == EINVAL ? failure(DAT_INVALID_ADDRESS) : connect_failure(error);
    if (!status.ok()) {
      UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "resolving %s",
                          to_text(from_cm(&to.any)).c_str());
      return status;
    }
    UDAPL_TRACE(kNormal, "QP %p: resolving %s: %s", terms_.qp, to_text(from_cm(&to.any)).c_str(),
                ErrnoText(error).c_str());
    return false;
  }
  endpoints_.local_port = ntohs(::rdma_get_src_port(id_->get()));
  set_state(CmState::kResolvingAddress);
  return true;
}

void RdmaConnection::send_request() noexcept {
  const ibv_device_attr& limits = adapter_.device().attr.orig_attr;
  const Environment& environment = adapter_.environment();
  rdma_conn_param param{};
  param.private_data = request_.bytes.data();
  param.private_data_len = request_.size;
  param.responder_resources = depth(terms_.read_in, limits.max_qp_rd_atom);
  param.initiator_depth = depth(terms_.read_out, limits.max_qp_init_rd_atom);
  param.flow_control = request_.sized ? 0 : 1;
  param.retry_count = environment.retry_count;
  param.rnr_retry_count = environment.rnr_retry;
  param.srq = terms_.shared_receives ? 1 : 0;
  param.qp_num = terms_.number;
  {
    const ScopedLock lock(lock_);
    set_state(CmState::kRequested);
  }
  id_->set_awaits_outcome(true);
  if (point::ended_cm("rdma_connect", ::rdma_connect(id_->get(), &param)) == 0) return;
  const int error = errno;
  id_->set_awaits_outcome(false);
  UDAPL_TRACE(kNormal, "QP %p: rdma_connect: %s", terms_.qp, ErrnoText(error).c_str());
  // Software iWARP makes its TCP connection inside rdma_connect, so it reports here that the peer
  // does not listen.
  end_->on_failed(*this,
                  error == ECONNREFUSED ? SetupFailure::kRefused : SetupFailure::kUnreachable, {});
}

bool RdmaConnection::confirm() noexcept {
  if (point::ended_cm("rdma_establish", ::rdma_establish(id_->get())) != 0) return false;
  note_endpoints();
  return true;
}

// ---- passive side ------------------------------------------------------------------------------

std::unique_ptr<RdmaConnection> RdmaConnection::take(Adapter& adapter, RdmaConnector& connector,
                                                     const rdma_cm_event& event) noexcept {
  std::unique_ptr<RdmaConnection> self(
      new (std::nothrow) RdmaConnection(adapter, connector, nullptr, CmState::kAsked));
  if (self == nullptr) return nullptr;
  CmOwner& owner = *self;
  self->id_.reset(new (std::nothrow) CmId(adapter.reactor(), *event.id, owner));
  if (self->id_ == nullptr) return nullptr;
  // rdma_cm gives the peer's values from the point of view of this side: responder resources for
  // the peer's Reads, initiator depth for our Reads.
  self->peer_read_out_ = event.param.conn.responder_resources;
  self->peer_read_in_ = event.param.conn.initiator_depth;
  const ScopedLock lock(self->lock_);
  self->endpoints_ = endpoints_of(adapter.device(), *event.id);
  return self;
}

void RdmaConnection::attach(ConnectionEnd& end, const QpTerms& terms) noexcept {
  const ScopedLock lock(lock_);
  end_ = &end;
  terms_ = terms;
  set_state(CmState::kAttached);
}

bool RdmaConnection::peer_gone() const noexcept {
  const ScopedLock lock(lock_);
  return peer_gone_;
}

bool RdmaConnection::reply(PrivateData data) noexcept {
  const ibv_device_attr& limits = adapter_.device().attr.orig_attr;
  const wire::Message message = wire::make_reply(data, carrier_of(adapter_.device()));
  rdma_conn_param param{};
  param.private_data = message.bytes.data();
  param.private_data_len = message.size;
  param.responder_resources =
      depth(std::min(terms_.read_in, peer_read_out_), limits.max_qp_rd_atom);
  param.initiator_depth =
      depth(std::min(terms_.read_out, peer_read_in_), limits.max_qp_init_rd_atom);
  param.flow_control = 1;
  param.rnr_retry_count = adapter_.environment().rnr_retry;
  param.srq = terms_.shared_receives ? 1 : 0;
  param.qp_num = terms_.number;
  id_->set_awaits_outcome(true);
  if (point::ended_cm("rdma_accept", ::rdma_accept(id_->get(), &param)) == 0) return true;
  UDAPL_TRACE(kNormal, "QP %p: rdma_accept: %s", terms_.qp, ErrnoText(errno).c_str());
  id_->set_awaits_outcome(false);
  return false;
}

void RdmaConnection::first_message_came() noexcept {
  if (::rdma_notify(id_->get(), IBV_EVENT_COMM_EST) != 0)
    UDAPL_TRACE(kNormal, "QP %p: rdma_notify: %s", terms_.qp, ErrnoText(errno).c_str());
}

void RdmaConnection::reject(PrivateData data) noexcept {
  const wire::Message message = wire::make_reject(data, carrier_of(adapter_.device()));
  if (::rdma_reject(id_->get(), message.bytes.data(), message.size) != 0)
    UDAPL_TRACE(kNormal, "rejecting %s: %s", to_text(endpoints().remote).c_str(),
                ErrnoText(errno).c_str());
}

// ---- both --------------------------------------------------------------------------------------

bool RdmaConnection::on_our_port(const void* qp) const noexcept {
  const Device& device = adapter_.device();
  const rdma_cm_id& id = *id_->get();
  if (id.verbs != nullptr && id.port_num == device.port &&
      ::ibv_get_device_guid(id.verbs->device) == ::ibv_get_device_guid(device.context->device))
    return true;
  static constinit trace::RateLimit limit;
  UDAPL_TRACE_LIMITED(limit, kError, "QP %p of %s port %d: the connection goes over %s port %d", qp,
                      device.name.c_str(), device.port,
                      id.verbs != nullptr ? ::ibv_get_device_name(id.verbs->device) : "no device",
                      id.port_num);
  return false;
}

bool RdmaConnection::attributes(ibv_qp_state state, ibv_qp_attr& attr, int& mask) noexcept {
  attr.qp_state = state;
  if (::rdma_init_qp_attr(id_->get(), &attr, &mask) != 0) {
    UDAPL_TRACE(kNormal, "QP %p: rdma_init_qp_attr for %s: %s", terms_.qp, name_of(state),
                ErrnoText(errno).c_str());
    return false;
  }
  mask &= kKnownQpMask;
  return true;
}

void RdmaConnection::refuse() noexcept { ::rdma_reject(id_->get(), nullptr, 0); }

void RdmaConnection::disconnect(bool answers) noexcept {
  const bool requested = point::ended_cm("rdma_disconnect", ::rdma_disconnect(id_->get())) == 0;
  awaits_peer_ = requested && !answers;
}

transport::Endpoints RdmaConnection::endpoints() const noexcept {
  const ScopedLock lock(lock_);
  return endpoints_;
}

// On the active side, keeps the remote address and port that the consumer has given.
void RdmaConnection::note_endpoints() noexcept {
  const transport::Endpoints ends = endpoints_of(adapter_.device(), *id_->get());
  const ScopedLock lock(lock_);
  if (active_) {
    endpoints_.local = ends.local;
    endpoints_.local_port = ends.local_port;
  } else {
    endpoints_ = ends;
  }
}

void RdmaConnection::set_state(CmState next) noexcept {
  UDAPL_TRACE(kDetail, "QP %p: %s -> %s", terms_.qp, name_of(state_), name_of(next));
  state_ = next;
}

}  // namespace udapl::verbs
