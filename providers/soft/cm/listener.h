// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/unshared_fd.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/connecting/listening.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/access_violations.h"
#include "providers/soft/cm/connector.h"
#include "providers/soft/cm/incoming.h"
#include "providers/soft/shm/offer.h"

#include <boost/intrusive/list.hpp>

#include <memory>

namespace udapl::soft {

// A listening TCP socket, and the accepted connections whose MPA Request is not complete yet. The
// sink is not notified of a connection before its Request is complete; the number and the lifetime
// of such connections are limited. Thread-safe. Owned by a service point. The destructor frees the
// port and refuses every connection request that has not been delivered to the sink.
class TcpListener final : public transport::Listener, private Handler {
 public:
  TcpListener(Reactor& reactor, const Settings& settings, AccessViolations& violations,
              transport::ListenSink& sink);
  ~TcpListener() override;

  // Binds to `place` (its port is ignored) and listens; with conn_qual 0, on any free port. Fails
  // with the errors of transport::Adapter::listen. Called once.
  Status start(transport::SocketAddress place, DAT_CONN_QUAL conn_qual) noexcept;

  [[nodiscard]] DAT_CONN_QUAL conn_qual() const noexcept override { return conn_qual_; }
  [[nodiscard]] const transport::SocketAddress& address() const noexcept override {
    return address_;
  }

  // For HalfOpen, called by the driving thread: returns the rings that the peer has left with this
  // token, see shm/offer.h.
  [[nodiscard]] shm::Rings take_offer(std::span<const std::byte> token) noexcept;
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  // For HalfOpen, called by the driving thread when the handshake has ended. `request`: the
  // complete request; null: there is none. Destroys `half_open`.
  void ended(HalfOpen& half_open, RequestQueue::Request request) noexcept;

 private:
  using HalfOpens = boost::intrusive::list<
      HalfOpen, boost::intrusive::member_hook<HalfOpen, boost::intrusive::list_member_hook<>,
                                              &HalfOpen::hook>>;

  // Why the listener does not accept at present. kPlace: there are too many half-open connections.
  // kRefused: the system has refused accept().
  enum class Pause : std::uint8_t { kNone, kPlace, kRefused };

  bool bind_to(transport::SocketAddress& place) noexcept;
  void open_box() noexcept;
  void on_ready(std::uint32_t events) noexcept override;
  bool accept_one() noexcept;
  void begin(UnsharedFd socket, const transport::Endpoints& endpoints) noexcept
      UDAPL_EXCLUDES(lock_);
  static void on_no_memory(const transport::Endpoints& endpoints) noexcept;
  [[nodiscard]] bool make_room() noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] HalfOpen* oldest_of_largest_network() noexcept UDAPL_REQUIRES(lock_);
  void on_refused(int error) noexcept UDAPL_EXCLUDES(lock_);
  void pause(Pause reason) noexcept UDAPL_REQUIRES(lock_);
  void resume() noexcept UDAPL_REQUIRES(lock_);
  void on_retry() noexcept;
  void on_offers_due() noexcept;

  Reactor& reactor_;
  const Settings settings_;
  AccessViolations& violations_;
  UnsharedFd socket_;                 // unchanged after start()
  transport::SocketAddress address_;  // unchanged after start()
  DAT_CONN_QUAL conn_qual_ = 0;       // unchanged after start()
  shm::OfferBox offers_;              // after start(), used by the driving thread only
  bool offers_watched_ = false;       // likewise
  Mutex lock_;
  HalfOpens half_open_ UDAPL_GUARDED_BY(lock_);
  Pause pause_ UDAPL_GUARDED_BY(lock_) = Pause::kNone;
  bool refused_ UDAPL_GUARDED_BY(lock_) = false;  // the system refuses accept(), which was traced
  bool closing_ UDAPL_GUARDED_BY(lock_) = false;
  RequestQueue complete_;
  Timer retry_;
  Timer offers_due_;
};

}  // namespace udapl::soft
