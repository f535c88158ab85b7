// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/listener.h"

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

#include <cerrno>
#include <utility>

namespace udapl::verbs {

namespace {

constexpr int kBacklog = 0;  // 0: the largest that the kernel allows

}  // namespace

RdmaListener::RdmaListener(Adapter& adapter, RdmaConnector& connector, transport::ListenSink& sink)
    : adapter_(adapter), connector_(connector), requests_(adapter.reactor(), sink) {}

RdmaListener::~RdmaListener() {
  id_.reset();  // waits for a request that is being handled
  requests_.close();
}

Status RdmaListener::start(const transport::SocketAddress& place, DAT_CONN_QUAL conn_qual) {
  Result<std::unique_ptr<CmId>> id = connector_.make_id(*this);
  if (!id.ok()) return id.status();
  CmAddress where = to_cm(adapter_.device(), place, transport::port_of(conn_qual));
  // Listens only at this address: peers could not find the listener at another one, and a wildcard
  // would listen on all devices.
  int afonly = 1;
  if (where.any.sa_family == AF_INET6)
    ::rdma_set_option((*id)->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &afonly, sizeof afonly);
  if (::rdma_bind_addr((*id)->get(), &where.any) != 0 ||
      ::rdma_listen((*id)->get(), kBacklog) != 0) {
    const int error = errno;
    const Status status = listen_failure(error, conn_qual == 0);
    UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "cannot listen at %s (qualifier %llu)",
                        to_text(from_cm(&where.any)).c_str(),
                        static_cast<unsigned long long>(conn_qual));
    return status;
  }
  address_ = from_cm(::rdma_get_local_addr((*id)->get()));
  conn_qual_ = conn_qual != 0 ? conn_qual : ntohs(::rdma_get_src_port((*id)->get()));
  address_.set_port(ntohs(::rdma_get_src_port((*id)->get())));
  id_ = *std::move(id);
  return Status();
}

void RdmaListener::on_cm_event(const rdma_cm_event& event) noexcept {
  static constinit trace::RateLimit unexpected;
  static constinit trace::RateLimit no_memory;
  point::event(event);
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    UDAPL_TRACE_LIMITED(unexpected, kError, "listener at %s: %s, status %d",
                        to_text(address_).c_str(), name_of(event.event), event.status);
    return;
  }
  Result<std::unique_ptr<RdmaIncoming>> request = RdmaIncoming::create(adapter_, connector_, event);
  if (!request.ok()) {
    UDAPL_TRACE_LIMITED(no_memory, kError, "no memory for a connection request");
    ::rdma_reject(event.id, nullptr, 0);
    ::rdma_destroy_id(event.id);  // does not wait: the event counts for the listener's id
    return;
  }
  RequestQueue::Request incoming = *std::move(request);
  if (!requests_.add(incoming))  // it is refused
    UDAPL_TRACE_LIMITED(no_memory, kError, "no memory for a connection request");
}

}  // namespace udapl::verbs
