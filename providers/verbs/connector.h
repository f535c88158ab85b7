// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/result.h"
#include "dapl/transport/adapter.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

// The interface between the QPs of this folder and the connection manager. A Qp owns a
// CmConnection, which reports its progress through ConnectionEnd; a Connector creates these
// connections and the listeners. There is one implementation per library: rdma_cm/ is the one of
// libdaplofa.
namespace udapl::verbs {

class Adapter;
class CmConnection;
struct Device;

// A port of an RDMA device.
struct Place {
  std::string device;
  std::uint8_t port;
};

// What a CmConnection needs to know about its QP. The QP does not change meanwhile.
struct QpTerms {
  const void* qp;        // identifies the QP in traces
  void* context;         // QpInit::context
  std::uint32_t number;  // ibv_qp::qp_num
  bool shared_receives;  // the QP uses an SRQ
  int read_in;           // QpInit::max_rdma_read_in
  int read_out;          // QpInit::max_rdma_read_out
};

// Why a set-up failed.
enum class SetupFailure : std::uint8_t {
  kRejected,    // by the peer's consumer
  kRefused,     // by the peer's stack, or the connection could not be completed here
  kUnreachable  // no route, no answer
};

// Why a connection, or its set-up, is over.
enum class Loss : std::uint8_t {
  kEndedByPeer,   // the peer has announced it
  kPeerLost,      // the peer does not answer
  kTransportLost  // the device was removed, or the connection manager has given up
};

// The reports of a CmConnection to its QP. Called by the driving thread with no lock of the
// connection held; they make no sink call. `connection` is the caller; the QP ignores the call if
// it has given up that connection meanwhile. The QP may destroy the connection, which therefore
// does not access itself after the call.
class ConnectionEnd {
 public:
  // Active side: the peer has accepted and waits until the QP is ready and confirm() is called.
  virtual void on_reply(CmConnection& connection, transport::PrivateData from_peer) noexcept = 0;
  // Both sides: the connection is established. `reply`: on an active side without on_reply, where
  // the kernel has made the QP ready, the peer's private data.
  virtual void on_established(CmConnection& connection, transport::PrivateData reply) noexcept = 0;
  virtual void on_failed(CmConnection& connection, SetupFailure why,
                         transport::PrivateData from_peer) noexcept = 0;
  // At any time.
  virtual void on_lost(CmConnection& connection, Loss why) noexcept = 0;

 protected:
  ~ConnectionEnd() = default;
};

// One connection, from its set-up to its end. Every function except the destructor may be called
// with the locks of the QP held, which come before the connection's own locks. Created by a
// Connector; owned by a Qp, or by the incoming request until the consumer has decided.
class CmConnection {
 public:
  // Notifies the peer of the end if that has not been done, without waiting for an answer. Waits
  // for a call of the ConnectionEnd in another thread: unless the calling thread is the driving
  // one, it holds no lock that such a call acquires.
  virtual ~CmConnection() = default;

  // Active side, once. Returns false if the peer is already known to be unreachable. Errors:
  // INVALID_ADDRESS, INSUFFICIENT_RESOURCES. In both cases no call of the ConnectionEnd follows.
  virtual Result<bool> start(const QpTerms& terms) = 0;
  // Passive side, once: from now on reports go to `end`. The peer may have given up before:
  // peer_gone().
  virtual void attach(ConnectionEnd& end, const QpTerms& terms) noexcept = 0;
  // Passive side, before and after attach(): the peer has given up before attach().
  [[nodiscard]] virtual bool peer_gone() const noexcept = 0;
  // Passive side: accepts; the QP is ready. Returns false if the peer cannot be notified.
  [[nodiscard]] virtual bool reply(transport::PrivateData data) noexcept = 0;

  // Returns whether the connection uses the port of the adapter; if not, traces that for `qp`.
  [[nodiscard]] virtual bool on_our_port(const void* qp) const noexcept = 0;
  // Fills in the attributes and the mask that the QP needs to change to `state` (INIT, RTR or RTS).
  // Returns false, traced, if that fails.
  [[nodiscard]] virtual bool attributes(ibv_qp_state state, ibv_qp_attr& attr,
                                        int& mask) noexcept = 0;
  // Active side, after on_reply: the QP is ready, so the peer may send. Returns false and sets
  // errno if that fails.
  [[nodiscard]] virtual bool confirm() noexcept = 0;
  // Notifies the peer that the set-up cannot be completed here.
  virtual void refuse() noexcept = 0;
  // Passive side: the peer's first message has arrived before its confirmation.
  virtual void first_message_came() noexcept = 0;
  // Ends an established connection. `answers`: the peer has ended it, so no answer is awaited.
  // Otherwise the connection manager's objects wait for the peer's answer after this was destroyed.
  virtual void disconnect(bool answers) noexcept = 0;

  // As far as they are known.
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
};

// Creates the connections and listeners of an adapter. Thread-safe. Owned by the Adapter, which
// outlives all QPs and listeners.
class Connector {
 public:
  virtual ~Connector() = default;

  // Creates a CmConnection, to be started with start(). INVALID_PARAMETER: more private data than a
  // request has room for; INVALID_ADDRESS; INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  virtual Result<std::unique_ptr<CmConnection>> prepare(const transport::ConnectRequest& request,
                                                        ConnectionEnd& end) = 0;
  // Implements transport::Adapter::listen.
  virtual Result<std::unique_ptr<transport::Listener>> listen(
      const transport::ListenRequest& request, transport::ListenSink& sink) = 0;
};

// The functions of a library's connection manager that an adapter needs.
struct ConnectorKit {
  // Returns the device and port of an address of this machine. `pkey`: the address is the GID of an
  // InfiniBand port, in this partition. Returns nullopt and sets errno if there is none.
  std::optional<Place> (*place_of)(const transport::SocketAddress& address,
                                   std::optional<std::uint16_t> pkey);
  // The most private data that the messages of this device can carry.
  transport::PrivateDataRoom (*private_data_room)(const Device& device) noexcept;
  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  Result<std::unique_ptr<Connector>> (*open)(Adapter& adapter);
};

}  // namespace udapl::verbs
