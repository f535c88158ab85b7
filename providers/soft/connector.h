// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/types.h"
#include "providers/soft/io/byte_stream.h"
#include "providers/soft/iwarp/mpa_negotiation.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace udapl::soft {

// The outcome of an MPA handshake: what a Qp must know to use the stream. The spans are valid
// during the call of attach() only.
struct Negotiated {
  bool initiator = false;
  iwarp::Agreed agreed;  // crc, markers, RTR message, read depths, and what the peer's frame said
  transport::PrivateData private_data;  // initiator: from the Reply; responder: empty
  // Responder: the MPA Reply, which the Qp sends before anything else. It always fits the socket
  // buffer, which is still empty. Initiator: empty.
  std::span<const std::byte> reply;
};

enum class SetupFailure : std::uint8_t {
  kRejected,     // by the peer's consumer, with private data
  kRefused,      // by the peer's stack
  kUnreachable,  // no host at the address
  kTimedOut      // the time limit of the request has passed; the connection was closed
};

// The side of a Qp that faces the connection manager.
class ConnectionEnd {
 public:
  // Returns the contents of our MPA frame: CRC, read depths of the QP, RTR types. Called by any
  // thread, without locks.
  [[nodiscard]] virtual iwarp::MpaConfig mpa_config() const noexcept = 0;

  // Hands the stream to the Qp, which takes it (leaves `stream` null), sends Negotiated::reply or
  // the RTR message, and watches the socket. Bytes that the peer has already sent are still in the
  // socket. From then on the Qp makes exactly one report: on_established or, if it fails first,
  // on_accept_failed (responder) or on_refused (initiator).
  //
  // Responder: called by IncomingConnection::accept. INVALID_STATE (the Qp is not idle) and
  // INSUFFICIENT_RESOURCES leave Qp and stream unchanged. It is no error if the peer has gone.
  // Initiator: the driving thread calls it once, through the Handshake, when the peer has accepted
  // the request. The status is ignored: a Qp that was disconnected meanwhile does not take the
  // stream. The Qp may destroy the Handshake during the call.
  virtual Status attach(std::unique_ptr<ByteStream>& stream,
                        const Negotiated& negotiated) noexcept = 0;

  // Called instead of attach() when the Handshake has failed, by the driving thread, without locks.
  // The Qp may destroy the Handshake during the call.
  virtual void on_failed(SetupFailure why, transport::PrivateData from_peer) noexcept = 0;

 protected:
  ~ConnectionEnd() = default;
};

// An active connection set-up in progress. Owned by the Qp, which destroys it when it has ended
// (possibly inside attach() or on_failed()) or to abort it. The destructor closes the connection,
// which the peer notices, and waits for a call of the ConnectionEnd that runs in another thread.
// The Qp must hold no lock meanwhile.
class Handshake {
 public:
  virtual ~Handshake() = default;
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
};

// Creates the active handshakes of Qps. Implemented by the adapter's connection manager.
class Connector {
 public:
  // Starts connecting. The driving thread reports the outcome to `end` later, never during this
  // call. Fails with the errors of transport::Qp::connect.
  virtual Result<std::unique_ptr<Handshake>> connect(const transport::ConnectRequest& request,
                                                     ConnectionEnd& end) = 0;
  // Called when a peer named memory that it has no right to access. Any lock may be held.
  virtual void access_violation(const transport::SocketAddress& remote) noexcept = 0;

 protected:
  ~Connector() = default;
};

}  // namespace udapl::soft
