// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/iwarp/mpa_frame.h"
#include "providers/soft/negotiated.h"

#include <chrono>
#include <memory>

namespace udapl::soft {

// What an administrator or a test may change; fixed while the adapter is open.
struct CmSettings {
  bool crc = true;                 // ask for CRC32C; a peer that asks gets it in any case
  bool revision1_fallback = true;  // once more with MPA revision 1 for a peer that hangs up on 2
  int half_open_limit = 128;       // incomplete handshakes per listener; further ones wait in TCP
  Clock::duration handshake_time = std::chrono::seconds(5);  // for a peer's complete MPA Request
};

// The connection manager of an adapter: listeners and active handshakes over TCP and MPA. A DAT
// connection qualifier is a TCP port. Immutable, so thread-safe. Owned by the Adapter.
class ConnectionManager final : public Connector {
 public:
  // `local`: the adapter's address; its port is ignored.
  ConnectionManager(Reactor& reactor, const transport::SocketAddress& local,
                    const CmSettings& settings) noexcept
      : reactor_(reactor), local_(local), settings_(settings) {}

  Result<std::unique_ptr<Handshake>> connect(const transport::ConnectRequest& request,
                                             ConnectionEnd& end) override;

  // transport::Adapter::listen.
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest& request,
                                                      transport::ListenSink& sink);

 private:
  Reactor& reactor_;
  const transport::SocketAddress local_;
  const CmSettings settings_;
};

// A connection that nobody decides about (no listener any more, its consumer's queue is full) is
// refused with a Reply that rejects and has this value, "not negotiated", in both depths. A
// consumer's rejection has not. So our own peers can tell the two; others see a rejection.
[[nodiscard]] iwarp::MpaFrame make_refusal(const iwarp::MpaFrame& request) noexcept;
[[nodiscard]] bool is_refusal(const iwarp::MpaFrame& reply) noexcept;

}  // namespace udapl::soft
