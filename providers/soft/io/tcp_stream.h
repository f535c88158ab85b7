// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/iwarp/tx_batch.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace udapl::soft {

struct IoResult {
  enum Kind : std::uint8_t {
    kDone,     // `bytes` > 0 were moved, perhaps fewer than asked
    kBlocked,  // nothing can be moved now
    kEnd,      // receive only: the peer sent FIN
    kBroken    // `error` says why; the connection is dead
  };
  Kind kind = kBlocked;
  int error = 0;
  std::size_t bytes = 0;
};

// A connected (or connecting) TCP socket: non-blocking, close-on-exec, no Nagle, keepalive. The
// only place with socket calls on the data path.
//
// Not thread-safe: its owner's lock serialises. Owned by a handshake of the connection manager,
// then by a Qp. The destructor stops watching and closes the socket (FIN, or RST if there was
// unread data); it does not wait for a running on_ready: see Reactor::quiesce.
class TcpStream {
 public:
  // Takes the socket and sets its options; `endpoints` as far as known.
  TcpStream(Reactor& reactor, Fd socket, const transport::Endpoints& endpoints) noexcept;
  ~TcpStream();
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  // A peer that for so long does not take what is sent to it is lost; 0: as TCP itself decides.
  void set_peer_timeout(std::chrono::milliseconds limit) noexcept;

  // Reports readiness for `events` to `handler`, which replaces an earlier one.
  // INSUFFICIENT_RESOURCES.
  Status watch(std::uint32_t events, Handler& handler) noexcept;
  void set_events(std::uint32_t events) noexcept;  // no system call if unchanged
  void unwatch() noexcept;

  // One sendmsg of as much as possible (at most 1024 spans).
  IoResult send(std::span<const iwarp::IoSpan> spans) noexcept;
  IoResult send(std::span<const std::byte> bytes) noexcept;
  // One recv.
  IoResult receive(std::span<std::byte> room) noexcept;
  IoResult peek(std::span<std::byte> room) noexcept;

  void shutdown_write() noexcept;  // FIN behind what was sent
  // Makes the destructor send RST and discard what was not sent.
  void abort_on_close() noexcept;

  [[nodiscard]] std::uint32_t effective_mss() const noexcept;  // bytes, now
  [[nodiscard]] std::size_t unacknowledged() const noexcept;   // bytes sent and not acknowledged
  [[nodiscard]] int pending_error() noexcept;                  // SO_ERROR, which is cleared
  void refresh_endpoints() noexcept;                           // asks the socket
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept { return endpoints_; }
  [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  void end_without_close() noexcept;

  Reactor& reactor_;
  Fd socket_;
  transport::Endpoints endpoints_;
  Handler* handler_ = nullptr;
  std::uint32_t events_ = 0;
  bool aborts_ = false;
};

}  // namespace udapl::soft
