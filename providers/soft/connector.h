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

// The outcome of an MPA handshake: how a Qp is to run the stream that it is given. The spans are
// valid during the call only.
struct Negotiated {
  bool initiator = false;
  iwarp::Agreed agreed;  // crc, markers, RTR message, read depths, and what the peer's frame said
  transport::PrivateData private_data;  // initiator: from the Reply; responder: empty
  // Responder: the MPA Reply, which the Qp sends before anything else (it always fits the empty
  // socket buffer). Initiator: empty.
  std::span<const std::byte> reply;
};

enum class ConnectFailure : std::uint8_t {
  kRejected,     // by the peer's consumer, with private data
  kRefused,      // by the peer's stack
  kUnreachable,  // no host at the address
  kTimedOut      // the request's time is over; the peer has been told
};

// The side of a Qp that faces the connection manager.
class ConnectionEnd {
 public:
  // What to put into the MPA frame: CRC, read depths of the QP, RTR types. Any thread, no lock.
  [[nodiscard]] virtual iwarp::MpaConfig mpa_config() const noexcept = 0;

  // The Qp runs the stream from now on: takes it (leaves `stream` null), sends Negotiated::reply or
  // the RTR message, watches the socket. Bytes that the peer has sent already are still in the
  // socket. From then on the Qp reports: on_established or on_accept_failed / on_refused (it failed
  // before that), exactly once.
  //
  // Responder: called by IncomingConnection::accept. INVALID_STATE (the Qp is not idle) and
  // INSUFFICIENT_RESOURCES leave both as they were. A peer that is gone is not an error.
  // Initiator: called by the Handshake from the driving thread, once, when the Reply has accepted;
  // the status is ignored (a Qp that was disconnected meanwhile does not take the stream). The Qp
  // may destroy the Handshake in it.
  virtual Status attach(std::unique_ptr<ByteStream>& stream,
                        const Negotiated& negotiated) noexcept = 0;

  // The Handshake failed; from the driving thread, instead of attach, no lock held. The Qp may
  // destroy the Handshake in it.
  virtual void connect_failed(ConnectFailure why, transport::PrivateData from_peer) noexcept = 0;

 protected:
  ~ConnectionEnd() = default;
};

// An active connection set-up in progress. Owned by the Qp, which destroys it when it has ended
// (also inside attach or connect_failed) or to abort it. The destructor closes the connection, so
// that the peer knows, and waits for a call of the ConnectionEnd that runs in another thread: the
// Qp holds no lock meanwhile.
class Handshake {
 public:
  virtual ~Handshake() = default;
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
};

// Where a Qp gets its active handshakes from: the adapter's connection manager.
class Connector {
 public:
  // Starts connecting; `end` is told the outcome later, from the driver, never from in here. Errors
  // as transport::Qp::connect.
  virtual Result<std::unique_ptr<Handshake>> connect(const transport::ConnectRequest& request,
                                                     ConnectionEnd& end) = 0;
  // A peer named memory that it has no right to. Any lock may be held.
  virtual void access_offence(const transport::SocketAddress& remote) noexcept = 0;

 protected:
  ~Connector() = default;
};

}  // namespace udapl::soft
