// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/access_violations.h"
#include "providers/soft/connector.h"
#include "providers/soft/iwarp/mpa_frame.h"
#include "providers/soft/settings.h"

#include <memory>

namespace udapl::soft {

// The connection manager of an adapter: listeners and active handshakes over TCP and MPA. A DAT
// connection qualifier is a TCP port. Thread-safe. Owned by the Adapter.
class TcpConnector final : public Connector {
 public:
  // `local`: the adapter's address; its port is ignored.
  TcpConnector(Reactor& reactor, const transport::SocketAddress& local,
               const Settings& settings) noexcept
      : reactor_(reactor), local_(local), settings_(settings) {}

  Result<std::unique_ptr<Handshake>> connect(const transport::ConnectRequest& request,
                                             ConnectionEnd& end) override;
  void access_violation(const transport::SocketAddress& remote) noexcept override {
    violations_.note(remote);
  }

  // transport::Adapter::listen.
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest& request,
                                                      transport::ListenSink& sink);

 private:
  Reactor& reactor_;
  const transport::SocketAddress local_;
  const Settings settings_;
  AccessViolations violations_;
};

// A request that no consumer decides on (the listener is gone, or the consumer's queue is full) is
// refused with a rejecting Reply that has the value "not negotiated" in both depths, which a
// consumer's rejection never has. So peers that use this provider can tell the two apart; others
// see a rejection.
[[nodiscard]] iwarp::MpaFrame make_refusal(const iwarp::MpaFrame& request) noexcept;
[[nodiscard]] bool is_refusal(const iwarp::MpaFrame& reply) noexcept;

}  // namespace udapl::soft
