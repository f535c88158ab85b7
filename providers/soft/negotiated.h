// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/types.h"
#include "providers/soft/io/tcp_stream.h"
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
  kUnreachable,  // nobody there
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
  // Initiator: called by the Connector from the driving thread, once, when the Reply has accepted;
  // the status is ignored (a Qp that was disconnected meanwhile does not take the stream). The Qp
  // may destroy the Connector in it.
  virtual Status attach(std::unique_ptr<TcpStream>& stream,
                        const Negotiated& negotiated) noexcept = 0;

  // The Connector failed; from the driving thread, instead of attach, no lock held. The Qp may
  // destroy the Connector in it.
  virtual void connect_failed(ConnectFailure why, transport::PrivateData from_peer) noexcept = 0;

 protected:
  ~ConnectionEnd() = default;
};

}  // namespace udapl::soft
