// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "dapl/transport/cm.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/cm/mpa_reader.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/iwarp/mpa_frame.h"
#include "providers/soft/network.h"
#include "providers/soft/settings.h"
#include "providers/soft/shm/rings.h"

#include <boost/intrusive/list.hpp>

#include <chrono>
#include <memory>

namespace udapl::soft {

class ConnectionEnd;
class TcpListener;
struct Negotiated;

// A connection whose MPA Request is complete and that waits for the consumer's decision. If the
// peer disconnects meanwhile, the descriptor is closed; the consumer learns that only when it
// accepts. Thread-safe, but only one thread may accept or reject. Owned by the listener, then by a
// CR.
class TcpIncoming final : public transport::IncomingConnection, private Handler {
 public:
  // `rings`: the rings that the peer has left for us, if any (shm/offer.h).
  TcpIncoming(std::unique_ptr<TcpStream> stream, const MpaReader& reader, shm::Rings rings,
              const Settings& settings) noexcept;
  ~TcpIncoming() override;

  [[nodiscard]] transport::PrivateData private_data() const noexcept override {
    return request_.private_data;
  }
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept override {
    return endpoints_;
  }
  [[nodiscard]] int peer_rdma_read_in() const noexcept override { return depth(request_.ird); }
  [[nodiscard]] int peer_rdma_read_out() const noexcept override { return depth(request_.ord); }

  // INVALID_PARAMETER if a frame cannot hold that much private data, or if `qp` is not a QP of this
  // provider.
  Status accept(transport::Qp& qp, transport::PrivateData private_data) override;
  void reject(transport::PrivateData private_data) noexcept override;

 private:
  enum class State : std::uint8_t { kWaiting, kPeerGone, kDecided };

  void on_ready(std::uint32_t events) noexcept override;
  [[nodiscard]] int depth(std::uint16_t word) const noexcept;
  // Stops waiting for the peer's end, and returns the stream. Returns null if the peer has gone, or
  // if the decision was already made.
  [[nodiscard]] std::unique_ptr<TcpStream> take() noexcept UDAPL_EXCLUDES(lock_);
  void wait(std::unique_ptr<TcpStream> stream) noexcept UDAPL_EXCLUDES(lock_);
  Status hand_over(std::unique_ptr<TcpStream>& stream, ConnectionEnd& end,
                   const Negotiated& negotiated);
  void answer(TcpStream& stream, const iwarp::MpaFrame& reply) noexcept;

  Reactor& reactor_;
  const int fd_;            // of stream_, also after stream_ was handed over
  const MpaReader reader_;  // contains the bytes of request_
  const iwarp::MpaFrame request_;
  const transport::Endpoints endpoints_;
  const bool crc_;
  const bool direct_;
  shm::Rings rings_;
  Mutex lock_;
  State state_ UDAPL_GUARDED_BY(lock_) = State::kWaiting;
  std::unique_ptr<TcpStream> stream_ UDAPL_GUARDED_BY(lock_);  // null if decided or peer is gone
};

// An accepted TCP connection whose MPA Request is being collected, for a limited time. Its
// callbacks run in the driving thread only. Owned by its TcpListener.
class HalfOpen final : private Handler {
 public:
  HalfOpen(TcpListener& listener, std::unique_ptr<TcpStream> stream) noexcept;
  ~HalfOpen();

  // Starts collecting. After an error, nothing has been started.
  Status start(Clock::duration limit) noexcept;

  // Called by the driving thread: ends the connection, unless the Request turns out to be complete.
  // In either case *this may be destroyed.
  void drop(const char* why) noexcept;

  [[nodiscard]] const Network& network() const noexcept { return network_; }
  [[nodiscard]] Clock::time_point since() const noexcept { return since_; }

  boost::intrusive::list_member_hook<> hook;  // guarded by the listener's lock

 private:
  void on_ready(std::uint32_t events) noexcept override;
  void on_timeout() noexcept;
  // Reads more of the Request. Returns whether it is still incomplete; otherwise *this may have
  // been destroyed.
  [[nodiscard]] bool collect() noexcept;
  [[nodiscard]] std::unique_ptr<TcpIncoming> make_request() noexcept;

  TcpListener& listener_;
  Reactor& reactor_;
  const int fd_;                           // of stream_, also after stream_ was handed over
  const transport::SocketAddress remote_;  // likewise
  const Network network_;
  const Clock::time_point since_ = Clock::now();
  std::unique_ptr<TcpStream> stream_;
  MpaReader reader_{iwarp::MpaKind::kRequest};
  Timer timeout_;
};

}  // namespace udapl::soft
