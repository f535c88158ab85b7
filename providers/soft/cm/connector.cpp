// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/cm/connector.h"

#include <new>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/cm/handshake.h"
#include "providers/soft/cm/listener.h"

namespace udapl::soft {

iwarp::MpaFrame make_refusal(const iwarp::MpaFrame& request) noexcept {
  iwarp::MpaFrame reply = iwarp::make_reject({}, request, {});
  reply.ird = reply.ord = iwarp::kDepthNotNegotiated;
  return reply;
}

bool is_refusal(const iwarp::MpaFrame& reply) noexcept {
  return reply.reject && reply.enhanced && reply.ird == iwarp::kDepthNotNegotiated &&
         reply.ord == iwarp::kDepthNotNegotiated && reply.private_data.empty();
}

Result<std::unique_ptr<Handshake>> TcpConnector::connect(const transport::ConnectRequest& request,
                                                         ConnectionEnd& end) {
  iwarp::MpaConfig config = end.mpa_config();
  config.crc = settings_.crc;
  if (request.private_data.size() > iwarp::max_private_data(config.revision >= 2))
    return failure(DAT_INVALID_PARAMETER);
  transport::SocketAddress remote = adapted_to(local_, request.remote);
  if (remote.family() != local_.family() && is_loopback(remote)) remote = local_;
  if (remote.family() != local_.family() || is_no_host(remote)) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
                  "%s cannot be reached from %s", to_text(remote).c_str(), to_text(local_).c_str());
    return failure(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
  }
  remote.set_port(transport::port_of(request.conn_qual));
  auto handshake = std::make_unique<TcpHandshake>(reactor_, local_, remote, request.private_data,
                                                  config, settings_, end);
  const Status started = handshake->start(request.timeout_us);
  if (!started.ok()) return started;
  return std::unique_ptr<Handshake>(std::move(handshake));
}

Result<std::unique_ptr<transport::Listener>> TcpConnector::listen(
    const transport::ListenRequest& request, transport::ListenSink& sink) {
  const transport::SocketAddress& place = request.address != nullptr ? *request.address : local_;
  auto listener = std::make_unique<TcpListener>(reactor_, settings_, violations_, sink);
  const Status started = listener->start(place, request.conn_qual);
  if (!started.ok()) return started;
  return std::unique_ptr<transport::Listener>(std::move(listener));
}

}  // namespace udapl::soft
