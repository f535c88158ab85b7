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

#include <cstdint>
#include <memory>

namespace udapl::soft {

// The connection manager of an adapter: listeners and active handshakes over TCP and MPA. A DAT
// connection qualifier is a TCP port (transport::port_of, port_for_users). Thread-safe. Owned by
// the Adapter.
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

// If no consumer can decide on a request (the listener is gone, or the consumer's queue is full),
// the request is refused: the Reply rejects it, and has the value "not negotiated" in both depths,
// which a consumer's rejection never has. So peers that use this provider can tell the two apart;
// other peers see a rejection.
[[nodiscard]] iwarp::MpaFrame make_refusal(const iwarp::MpaFrame& request) noexcept;
[[nodiscard]] bool is_refusal(const iwarp::MpaFrame& reply) noexcept;

// Ports below 1024 are reserved for root. For such a port, returns the port at which an ordinary
// user listens instead, just below the ports of folded qualifiers. Returns 0 if the port is not
// reserved.
[[nodiscard]] constexpr std::uint16_t port_for_users(std::uint16_t port) noexcept {
  constexpr int kReserved = 1024;
  constexpr int kFirstFolded = 33534;  // see transport::port_of
  return port == 0 || port >= kReserved
             ? 0
             : static_cast<std::uint16_t>(port + kFirstFolded - kReserved);
}

}  // namespace udapl::soft
