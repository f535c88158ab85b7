// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RdmaConnection: the events of rdma_cm, and the resolution of addresses and routes.
#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/rdma_cm/address.h"
#include "providers/verbs/rdma_cm/connection.h"
#include "providers/verbs/rdma_cm/trace_points.h"
#include "providers/verbs/status.h"

#include <cerrno>

namespace udapl::verbs {

using transport::PrivateData;

namespace {

PrivateData data_of(const rdma_conn_param& param) noexcept {
  return {static_cast<const std::byte*>(param.private_data),
          param.private_data != nullptr ? param.private_data_len : 0U};
}

}  // namespace

// The driving thread holds no lock of the connection while it calls the QP, which may give up the
// connection meanwhile.
void RdmaConnection::on_cm_event(const rdma_cm_event& event) noexcept {
  CmState state{};
  const void* context = nullptr;
  {
    const ScopedLock lock(lock_);
    state = state_;
    context = terms_.context;
    if (action_of(state, event.event) == CmAction::kPeerGone) peer_gone_ = true;
  }
  const trace::About about(context);
  point::event(event);
  switch (action_of(state, event.event)) {
    case CmAction::kIgnore:
      return;
    case CmAction::kTrace:
      UDAPL_TRACE(kNormal, "QP %p: %s, status %d", terms_.qp, name_of(event.event), event.status);
      return;
    case CmAction::kResolveRoute:
      return resolve_route();
    case CmAction::kRequest:
      return send_request();
    case CmAction::kRetry:
      return resolve_again(event);
    case CmAction::kReply:
      return end_->on_reply(
          *this, wire::read_reply(data_of(event.param.conn), carrier_of(adapter_.device())));
    case CmAction::kEstablished:
      note_endpoints();
      return end_->on_established(
          *this, state != CmState::kRequested
                     ? PrivateData{}
                     : wire::read_reply(data_of(event.param.conn), carrier_of(adapter_.device())));
    case CmAction::kRejected:
      return on_rejected(event);
    case CmAction::kLost:
      return on_lost(event);
    case CmAction::kPeerGone:  // the only event possible before the consumer's decision
      UDAPL_TRACE(kNormal, "%s has given up: %s", to_text(endpoints().remote).c_str(),
                  name_of(event.event));
      return;
  }
}

void RdmaConnection::on_rejected(const rdma_cm_event& event) noexcept {
  const bool iwarp = adapter_.device().iwarp();
  UDAPL_TRACE(kNormal, "QP %p: rejected, %d: %s", terms_.qp, event.status,
              reject_reason(event.status, iwarp));
  const wire::Rejection rejection =
      wire::read_reject(data_of(event.param.conn), carrier_of(adapter_.device()));
  if (rejection.by_consumer && (iwarp || event.status == kConsumerReject))
    return end_->on_failed(*this, SetupFailure::kRejected, rejection.data);
  if (iwarp && event.status == -ETIMEDOUT) return unreachable();
  end_->on_failed(*this, SetupFailure::kRefused, {});
}

void RdmaConnection::on_lost(const rdma_cm_event& event) noexcept {
  UDAPL_TRACE(kNormal, "QP %p: %s, status %d", terms_.qp, name_of(event.event), event.status);
  end_->on_lost(*this, event.event == RDMA_CM_EVENT_DISCONNECTED  ? Loss::kEndedByPeer
                       : event.event == RDMA_CM_EVENT_UNREACHABLE ? Loss::kPeerLost
                                                                  : Loss::kTransportLost);
}

void RdmaConnection::unreachable() noexcept {
  end_->on_failed(*this, SetupFailure::kUnreachable, {});
}

void RdmaConnection::resolve_route() noexcept {
  if (!on_our_port(terms_.qp)) return unreachable();
  {
    const ScopedLock lock(lock_);
    tries_ = 0;
    set_state(CmState::kResolvingRoute);
  }
  const auto timeout_ms = static_cast<int>(adapter_.environment().route_timeout_ms);
  if (point::ended_cm("rdma_resolve_route", ::rdma_resolve_route(id_->get(), timeout_ms)) == 0)
    return;
  UDAPL_TRACE(kNormal, "QP %p: rdma_resolve_route: %s", terms_.qp, ErrnoText(errno).c_str());
  unreachable();
}

// Tries again after a time-out, because the datagram that requested the address may have been lost.
void RdmaConnection::resolve_again(const rdma_cm_event& event) noexcept {
  const Environment& environment = adapter_.environment();
  const bool address = event.event == RDMA_CM_EVENT_ADDR_ERROR;
  const std::uint32_t retries = address ? environment.arp_retries : environment.route_retries;
  bool again = false;
  CmAddress to{};
  {
    const ScopedLock lock(lock_);
    UDAPL_TRACE(kNormal, "QP %p: %s: %s, try %u of %u", terms_.qp, name_of(event.event),
                ErrnoText(-event.status).c_str(), tries_ + 1, retries + 1);
    again = event.status == -ETIMEDOUT && tries_ < retries;
    if (again) ++tries_;
    to = to_cm(adapter_.device(), endpoints_.remote, transport::port_of(endpoints_.remote_port));
  }
  if (!again) return unreachable();
  const int failed =
      address ? ::rdma_resolve_addr(id_->get(), nullptr, &to.any,
                                    static_cast<int>(environment.arp_timeout_ms))
              : ::rdma_resolve_route(id_->get(), static_cast<int>(environment.route_timeout_ms));
  if (failed == 0) return;
  UDAPL_TRACE(kNormal, "QP %p: cannot retry: %s", terms_.qp, ErrnoText(errno).c_str());
  unreachable();
}

}  // namespace udapl::verbs
