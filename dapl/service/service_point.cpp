// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/service/service_point.h"

#include "common/backoff.h"
#include "dapl/endpoint/ep.h"
#include "dapl/endpoint/named_attributes.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/trace_points.h"
#include "dapl/service/csp.h"
#include "dapl/service/psp.h"
#include "dapl/service/rsp.h"

#include <algorithm>
#include <new>

namespace udapl::dapl {

ServicePoint::ServicePoint(Ia& owner, DAT_HANDLE_TYPE type, Evd& evd,
                           transport::ListenSink& sink) noexcept
    : ObjectHeader(owner.provider, type, &owner), evd_(&evd), sink_(sink) {}

// As with the packaged library, the code has no class bits if another program uses the port:
// programs that look for a free port compare it with DAT_CONN_QUAL_IN_USE.
Status ServicePoint::in_use(DAT_CONN_QUAL conn_qual) const noexcept {
  bool here = false;
  const auto look = [&, port = transport::port_of(conn_qual)](const ServicePoint& place) {
    here |= &place != this && transport::port_of(place.conn_qual()) == port;
  };
  ia->for_each<Psp>(look);
  ia->for_each<Csp>(look);
  ia->for_each<Rsp>(look);
  return here ? failure(DAT_CONN_QUAL_IN_USE) : Status(DAT_CONN_QUAL_IN_USE);
}

Status ServicePoint::listen(const transport::ListenRequest& request) noexcept try {
  // First, because requests may arrive during listen().
  conn_qual_.store(request.conn_qual, std::memory_order_relaxed);
  auto listener = ia->adapter().listen(request, sink_);
  if (!listener.ok()) {
    UDAPL_TRACE(kNormal, "cannot listen on 0x%llx: 0x%x",
                static_cast<unsigned long long>(request.conn_qual), listener.status().code());
    return listener.status().type() == DAT_CONN_QUAL_IN_USE ? in_use(request.conn_qual)
                                                            : listener.status();
  }
  listener_ = *std::move(listener);
  conn_qual_.store(listener_->conn_qual(), std::memory_order_relaxed);
  address_ = listener_->address();
  return Status();
} catch (const std::bad_alloc&) {
  UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY,
               "cannot listen on 0x%llx: no memory",
               static_cast<unsigned long long>(request.conn_qual));
}

void ServicePoint::wait_for_users() const noexcept {
  // acquire: pairs with ~Use.
  Backoff backoff;
  while (uses.load(std::memory_order_acquire) != 0) backoff.wait();
}

namespace {

DAT_EVENT arrival_event(const Arrival& arrival, Cr& cr) noexcept {
  DAT_EVENT event{};
  event.event_number = DAT_CONNECTION_REQUEST_EVENT;
  DAT_CR_ARRIVAL_EVENT_DATA& data = event.event_data.cr_arrival_event_data;
  data.sp_handle = arrival.place;
  data.local_ia_address_ptr = cr.endpoints().local.get();
  data.conn_qual = cr.endpoints().local_port;
  data.cr_handle = &cr;
  data.truncate_flag = DAT_FALSE;  // a transport truncates no private data
  return event;
}

}  // namespace

Required<Evd> require_cr_evd(const Ia& ia, DAT_EVD_HANDLE handle) noexcept {
  const auto evd = require_of<Evd>(ia, handle, DAT_INVALID_HANDLE_EVD_CR);
  if (evd == nullptr) return evd;
  if (const Status status = evd->check_stream(DAT_EVD_CR_FLAG, DAT_INVALID_HANDLE_EVD_CR);
      !status.ok())
    return {nullptr, status};
  return evd;
}

Result<Ep*> make_provider_ep(Ia& ia, const transport::IncomingConnection& request) noexcept try {
  const transport::Attributes& limits = ia.attributes();
  const auto depth = [](int proposed, int limit, DAT_COUNT by_default) {
    return proposed < 0 ? by_default : std::min(proposed, limit);
  };
  EpConfig config;
  config.attr = default_attributes(limits, 0);  // dat_ep_modify adds DTOs together with EVDs
  config.delayed_ack = limits.delayed_ack_by_default;
  show_ep_attributes(limits, &config);
  config.attr.max_rdma_read_in =
      depth(request.peer_rdma_read_out(), limits.max_rdma_read_in, config.attr.max_rdma_read_in);
  config.attr.max_rdma_read_out =
      depth(request.peer_rdma_read_in(), limits.max_rdma_read_out, config.attr.max_rdma_read_out);
  return Ep::make(ia, config, DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
} catch (const std::bad_alloc&) {
  UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY, "provider EP: no memory");
}

Status deliver(Ia& ia, Evd& evd, Arrival& arrival, Upcall& upcall) noexcept try {
  // The CR reports the qualifier that the consumer passed. The transport has mapped it to a port.
  transport::Endpoints ends = arrival.request->endpoints();
  if (arrival.conn_qual != 0) ends.local_port = arrival.conn_qual;
  if (arrival.own.ep != nullptr) arrival.own.ep->set_endpoints(ends);
  Owned<Cr> made = make_object<Cr>(ia, std::move(arrival.request), ends, arrival.own);
  Cr& cr = ia.adopt(std::move(made));
  if (trace::enabled(trace::kNormal)) [[unlikely]]
    point::connection(cr, DAT_CONNECTION_REQUEST_EVENT, ends, cr.request()->private_data());
  bool queued = false;
  upcall = evd.try_post(arrival_event(arrival, cr), &queued);
  if (queued) return Status();
  // The CR is not known to any other thread yet.
  arrival.request = std::move(cr.request());
  ia.destroy(cr);
  UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD,
               "connection request on 0x%llx: its EVD is full",
               static_cast<unsigned long long>(arrival.conn_qual));
} catch (const std::bad_alloc&) {
  UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY, "connection request: no memory");
}

Status hand_over(Ia& ia, DAT_CONN_QUAL conn_qual,
                 std::unique_ptr<transport::IncomingConnection>& request, Upcall& upcall) noexcept {
  // A Use keeps a PSP or CSP from being freed; the claimed delivery keeps an RSP. An RSP that does
  // not listen yet is passed over: waiting for it here could deadlock, because its creation may
  // need the IA's lock, which for_each() holds.
  Use<Psp> psp;
  Use<Csp> csp;
  Rsp* rsp = nullptr;
  const auto matches = [port = transport::port_of(conn_qual)](const ServicePoint& place) {
    return transport::port_of(place.conn_qual()) == port;
  };
  ia.for_each<Psp>([&](Psp& place) {
    if (matches(place)) psp = Use<Psp>(&place);
  });
  if (!psp)
    ia.for_each<Csp>([&](Csp& place) {
      if (matches(place)) csp = Use<Csp>(&place);
    });
  if (!psp && !csp)
    ia.for_each<Rsp>([&](Rsp& place) {
      if (matches(place) && place.try_begin_delivery()) rsp = &place;
    });
  if (psp) return psp->receive(request, upcall);
  if (csp) return csp->receive(request, upcall);
  if (rsp != nullptr) return rsp->receive(request, upcall);
  UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "no listener on 0x%llx",
               static_cast<unsigned long long>(conn_qual));
}

}  // namespace udapl::dapl
