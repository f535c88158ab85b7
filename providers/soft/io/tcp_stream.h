// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/unshared_fd.h"
#include "providers/soft/io/byte_stream.h"
#include "providers/soft/io/peer_watch.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace udapl::soft {

// A connected (or connecting) TCP socket: non-blocking, close-on-exec, no Nagle. Makes the socket
// calls of a link over TCP.
//
// Owned by a handshake of the connection manager, then by a Qp. The destructor closes the socket:
// FIN, or RST if there was unread data.
class TcpStream final : public ByteStream {
 public:
  // Takes ownership of the socket and sets its options; `endpoints` as far as known.
  TcpStream(Reactor& reactor, UnsharedFd socket, const transport::Endpoints& endpoints) noexcept;
  ~TcpStream() override;

  // Starts the PeerWatch, with the time after which the connection to a silent host is lost.
  void set_peer_timeout(std::chrono::milliseconds limit) noexcept { peer_watch_.start(limit); }

  // Stops the reports to the handler.
  void unwatch() noexcept;

  IoResult send(std::span<const std::byte> bytes) noexcept;
  IoResult peek(std::span<std::byte> room) noexcept;
  [[nodiscard]] int pending_error() noexcept;  // SO_ERROR, which is cleared
  // Selects a congestion control without pacing, for a socket whose two ends are on one host:
  // nothing is congested there, and pacing, as by BBR, would only slow it down (docs/adr/0091).
  // Should be called before the connection is established: otherwise some of BBR's pacing remains.
  static void choose_unpaced(int socket) noexcept;
  // Reads both addresses from the socket. If they are on one host, calls choose_unpaced().
  void refresh_endpoints() noexcept;
  [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  // ---- ByteStream -------------------------------------------------------------------------------
  Status watch(std::uint32_t events, Handler& handler) noexcept override;
  void set_events(std::uint32_t events) noexcept override;  // no system call if unchanged
  // Always reports input: only recv() can tell whether there is any.
  [[nodiscard]] std::uint32_t look() noexcept override { return EPOLLIN; }
  // One send or sendmsg.
  IoResult send(std::span<const iwarp::IoSpan> spans, std::size_t kept) noexcept override;
  [[nodiscard]] std::size_t copied_first() const noexcept override;
  IoResult receive(std::span<std::byte> room) noexcept override;  // one recv
  IoResult receive_both(std::span<std::byte> room, std::span<std::byte> behind) noexcept override;
  [[nodiscard]] bool receives_in_place() const noexcept override { return true; }
  // The socket buffer is empty and accepts the whole reply.
  IoResult answer(std::span<const std::byte> reply) noexcept override { return send(reply); }
  void shutdown_write() noexcept override;  // FIN
  // Makes close() send RST and discard unsent bytes.
  void abort_on_close() noexcept override;
  [[nodiscard]] std::uint32_t effective_mss() const noexcept override;
  [[nodiscard]] std::size_t unacknowledged() noexcept override;
  [[nodiscard]] std::size_t undelivered() noexcept override;
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept override {
    return endpoints_;
  }

 private:
  IoResult outcome_of_receive(ssize_t moved, bool had_room) noexcept;
  void end_without_close() noexcept;
  void end_gently_as(std::unique_ptr<ByteStream> self, KeptBytes rest) noexcept override;

  Reactor& reactor_;
  UnsharedFd socket_;
  transport::Endpoints endpoints_;
  Handler* handler_ = nullptr;
  std::uint32_t events_ = 0;
  bool aborts_ = false;
  bool finished_ = false;  // shutdown_write() was called
  PeerWatch peer_watch_;   // destroyed before the socket
};

}  // namespace udapl::soft
