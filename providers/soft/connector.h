// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/soft/io/reactor.h"
#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/iwarp/mpa_frame.h"
#include "providers/soft/negotiated.h"

#include <array>
#include <memory>
#include <vector>

namespace udapl::soft {

// The active side of connection setup: TCP connect, MPA Request, MPA Reply, once again with MPA
// revision 1 if the peer seems to know no other. Ends in one call of its ConnectionEnd, attach or
// connect_failed, from the driving thread.
//
// Thread-safe. Owned by the Qp (the ConnectionEnd). The destructor aborts a running setup and tells
// the peer so by closing the connection; it waits for a call of the ConnectionEnd that runs in
// another thread, so the Qp destroys it without holding its own lock.
class Connector final : private Handler {
 public:
  // Starts from the host address `local`. INVALID_ADDRESS: family of the remote address does not
  // fit or it can never be reached; INVALID_PARAMETER: conn_qual is not 1..65535;
  // INSUFFICIENT_RESOURCES. Whatever else goes wrong is reported to `end`, also when known at once.
  static Result<std::unique_ptr<Connector>> start(Reactor& reactor,
                                                  const transport::SocketAddress& local,
                                                  const transport::ConnectRequest& request,
                                                  ConnectionEnd& end);
  ~Connector();

  [[nodiscard]] transport::Endpoints endpoints() const noexcept;

 private:
  Connector(Reactor& reactor, const transport::SocketAddress& local,
            const transport::ConnectRequest& request, ConnectionEnd& end);
  void on_ready(std::uint32_t events) noexcept override;
};

}  // namespace udapl::soft
