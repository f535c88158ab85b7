// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

// The seam between the QPs of this folder and what sets up their connections: a Qp owns a
// CmConnection, which tells it through ConnectionEnd what becomes of it; a Connector makes them,
// and the listeners. One implementation for each library: rdma_cm/ is that of libdaplofa.
namespace udapl::verbs {

class Adapter;
class CmConnection;
struct Device;

// A port of an RDMA device.
struct Place {
  std::string device;
  std::uint8_t port;
};

// What a CmConnection has to know of the QP that it is for. The QP does not change meanwhile.
struct QpTerms {
  const void* qp;        // whom traces name
  void* context;         // QpInit::context
  std::uint32_t number;  // ibv_qp::qp_num
  bool shared_receives;  // from an SRQ
  int read_in;           // QpInit::max_rdma_read_in
  int read_out;          // QpInit::max_rdma_read_out
};

// Why a set-up led to nothing.
enum class SetupFailure : std::uint8_t {
  kRejected,    // by the peer's consumer
  kRefused,     // by the peer's stack, or the connection could not be completed here
  kUnreachable  // no route, no answer
};

// Why a connection, or its set-up, is over.
enum class Loss : std::uint8_t {
  kEndedByPeer,   // which has said so
  kPeerLost,      // the peer does not answer
  kTransportLost  // the device has gone, or the connection manager has given up
};

// What a CmConnection tells its QP: by the driver, with no lock of the connection held, and no sink
// call is made inside. `connection` is the one that tells; the QP may have given it up meanwhile,
// and then does not listen. The QP may destroy it: the connection touches nothing of itself after
// the call.
class ConnectionEnd {
 public:
  // Active side: the peer has accepted and waits until the QP is ready and confirm() says so.
  virtual void on_reply(CmConnection& connection, transport::PrivateData from_peer) noexcept = 0;
  // Both sides: the connection is there. `reply`: of an active side that had no on_reply, as the
  // QP was made ready by the kernel.
  virtual void on_established(CmConnection& connection, transport::PrivateData reply) noexcept = 0;
  virtual void on_failed(CmConnection& connection, SetupFailure why,
                         transport::PrivateData from_peer) noexcept = 0;
  // At any time.
  virtual void on_lost(CmConnection& connection, Loss why) noexcept = 0;

 protected:
  ~ConnectionEnd() = default;
};

// One set-up and what follows until its end. Every function but the destructor may be called with
// the locks of the QP held; the connection's own are inside those. Made by a Connector, owned by a
// Qp; before the consumer's decision by the request that it is of.
class CmConnection {
 public:
  // Tells the peer the end if that has not been done, and waits for no answer of the peer. Waits
  // for a call of the ConnectionEnd in another thread: the caller holds no lock that such a call
  // takes, unless it is the driver.
  virtual ~CmConnection() = default;

  // Active side, once. False: the peer is known to be unreachable at once, no call comes. An error:
  // INVALID_ADDRESS or INSUFFICIENT_RESOURCES, no call comes.
  virtual Result<bool> start(const QpTerms& terms) = 0;
  // Passive side, once: from now on `end` is told. The peer may have given up before: peer_gone().
  virtual void attach(ConnectionEnd& end, const QpTerms& terms) noexcept = 0;
  // Passive side, before and after attach(): the peer has given up before attach().
  [[nodiscard]] virtual bool peer_gone() const noexcept = 0;
  // Passive side: accepts, the QP being ready. False: that cannot be told to the peer.
  [[nodiscard]] virtual bool reply(transport::PrivateData data) noexcept = 0;

  // Does the connection go over the port that the adapter is at? Traced, of `qp`, if not.
  [[nodiscard]] virtual bool on_our_port(const void* qp) const noexcept = 0;
  // What the QP needs to change to `state` (INIT, RTR or RTS), and which of it. False: traced.
  [[nodiscard]] virtual bool attributes(ibv_qp_state state, ibv_qp_attr& attr,
                                        int& mask) noexcept = 0;
  // Active side, after on_reply: the QP is ready, the peer may send. False: errno says why.
  [[nodiscard]] virtual bool confirm() noexcept = 0;
  // The set-up cannot be completed here: the peer is told.
  virtual void refuse() noexcept = 0;
  // Passive side: the peer's first message has come before its confirmation.
  virtual void first_message_came() noexcept = 0;
  // The connection was there and ends. `answers`: the peer has ended it, so that nothing is left to
  // wait for; else what is left of the connection waits, without its owner, for the peer's answer.
  virtual void disconnect(bool answers) noexcept = 0;

  // As far as they are known.
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
};

// Makes the connections and listeners of an adapter. Thread-safe. Owned by the Adapter, which
// outlives all QPs and listeners.
class Connector {
 public:
  virtual ~Connector() = default;

  // A CmConnection that start() sets on its way. INVALID_PARAMETER: more private data than a
  // request has room for; INVALID_ADDRESS; INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  virtual Result<std::unique_ptr<CmConnection>> prepare(const transport::ConnectRequest& request,
                                                        ConnectionEnd& end) = 0;
  // transport::Adapter::listen.
  virtual Result<std::unique_ptr<transport::Listener>> listen(
      const transport::ListenRequest& request, transport::ListenSink& sink) = 0;
};

// How a library connects: what an adapter has to be told of its Connector.
struct ConnectorKit {
  // On which device and port an address of this machine is. `pkey`: the address is the GID of an
  // InfiniBand port, in this partition. Nullopt and errno: on none.
  std::optional<Place> (*place_of)(const transport::SocketAddress& address,
                                   std::optional<std::uint16_t> pkey);
  // Private data that a request from this device has room for.
  std::size_t (*request_room)(const Device& device) noexcept;
  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  Result<std::unique_ptr<Connector>> (*open)(Adapter& adapter);
};

}  // namespace udapl::verbs
