// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/cm/connector.h"
#include "providers/soft/cm/mpa_reader.h"
#include "providers/soft/connector.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "providers/soft/shm/offer.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace udapl::soft {

// The active side of a connection set-up: TCP connect, MPA Request, MPA Reply. The driving thread
// ends it with one call of the ConnectionEnd. Thread-safe. Owned by the Qp; see Handshake.
//
// After a failed attempt, another one is made in these cases:
// - There is no listener, or the connection was reset: a few times within 75 ms. Some servers
//   inform their clients before they listen (dtestx does), and the kernel resets the connections in
//   the backlog of a listener that ends.
// - The peer closes or resets the connection when it gets a Request of MPA revision 2, and is not
//   known to use this provider: with revision 1.
// - The peer drops the connection later, or before it has got the Request, so the revision was not
//   the reason: until the time limit; without a limit, eight times.
// - TCP gives the peer's host up, or the host does not answer ARP: until the time limit; without a
//   limit, the host is unreachable.
class TcpHandshake final : public Handshake, private Handler {
 public:
  TcpHandshake(Reactor& reactor, const transport::SocketAddress& local,
               const transport::SocketAddress& remote, transport::PrivateData private_data,
               const iwarp::MpaConfig& config, const Settings& settings, ConnectionEnd& end);
  ~TcpHandshake() override;

  // INVALID_ADDRESS, INSUFFICIENT_RESOURCES: nothing was started, and nothing will be reported.
  Status start(DAT_TIMEOUT timeout_us) noexcept;

  [[nodiscard]] transport::Endpoints endpoints() const noexcept override;

 private:
  enum class State : std::uint8_t { kConnecting, kAwaitingOffer, kAwaitingReply, kOver };
  // The result to report after the lock has been released.
  struct Verdict {
    enum What : std::uint8_t { kNothing, kFailed, kAccepted } what = kNothing;
    SetupFailure why = SetupFailure::kRefused;
    std::unique_ptr<ByteStream> stream;
    iwarp::Agreed agreed;
    std::size_t data_size = 0;
    // A copy, because the handshake may be destroyed during the report.
    std::array<std::byte, iwarp::kMpaMaxPrivateData> data;
  };

  Status begin_attempt() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] transport::SocketAddress place_after(int refusals) const noexcept;
  void on_ready(std::uint32_t events) noexcept override;
  void on_timeout() noexcept;
  void report_failure() noexcept;
  void on_retry() noexcept;
  [[nodiscard]] static SetupFailure meaning(int error) noexcept;
  static constexpr auto kFirstRetry = std::chrono::milliseconds(5);
  // Schedules another attempt, if the rules above allow one after `error`. Returns whether it did.
  [[nodiscard]] bool schedule_retry(int error) noexcept UDAPL_REQUIRES(lock_);
  // For a connection that the peer has ended without a Reply. ended_on_request(): whether the peer
  // got the Request, and ended the connection soon after the attempt began. may_be_an_answer():
  // whether the peer may have ended it because of the Request.
  [[nodiscard]] bool ended_on_request() const noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool may_be_an_answer() const noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool may_appear() noexcept UDAPL_REQUIRES(lock_);
  void connected(Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  // Offers shared memory to the peer, if possible. Returns whether the Request may be sent. kLater:
  // not yet, because the peer has too many offers at the moment; retry_ is running. kNever: no,
  // because path=shm requires an offer and none can be made.
  enum class MayRequest : std::uint8_t { kNow, kLater, kNever };
  [[nodiscard]] MayRequest offer_rings() noexcept UDAPL_REQUIRES(lock_);
  void make_offer(shm::NoOffer& failure) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool take_path(const iwarp::MpaFrame& reply, Verdict& verdict) noexcept
      UDAPL_REQUIRES(lock_);
  void receive_reply(Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  void evaluate_reply(Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  void broken(int error, Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  void hung_up(Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  void fall_back(Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  void fail(SetupFailure why, Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  static void announce(ConnectionEnd& end, Verdict& verdict) noexcept;

  Reactor& reactor_;
  const transport::SocketAddress local_;
  const transport::SocketAddress asked_;  // by the consumer
  const std::vector<std::byte> private_data_;
  ConnectionEnd& end_;
  const void* const subject_;  // of the trace records: the EP of the call that connects
  const std::chrono::milliseconds peer_timeout_;
  const bool direct_;
  const Settings::Path path_;
  const std::uint8_t revision_;  // the one to begin with
  const bool may_fall_back_;

  mutable Mutex lock_;
  transport::SocketAddress remote_ UDAPL_GUARDED_BY(lock_);  // of this attempt
  iwarp::MpaConfig config_ UDAPL_GUARDED_BY(lock_);
  int retries_ UDAPL_GUARDED_BY(lock_) = 0;  // because there was no listener
  int resets_ UDAPL_GUARDED_BY(lock_) = 0;   // because of a reset, one after the other
  int losses_ UDAPL_GUARDED_BY(lock_) = 0;   // because the Request was lost
  bool unreachable_at_once_ UDAPL_GUARDED_BY(lock_) = false;  // see may_appear()
  Clock::time_point began_ UDAPL_GUARDED_BY(lock_);           // when this attempt began
  int offers_put_off_ UDAPL_GUARDED_BY(lock_) = 0;
  bool limited_ UDAPL_GUARDED_BY(lock_) = false;  // there is a time limit
  State state_ UDAPL_GUARDED_BY(lock_) = State::kConnecting;
  SetupFailure early_failure_ UDAPL_GUARDED_BY(lock_) = SetupFailure::kUnreachable;
  std::unique_ptr<TcpStream> stream_ UDAPL_GUARDED_BY(lock_);
  std::optional<shm::Offer> offer_ UDAPL_GUARDED_BY(lock_);
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(lock_);
  MpaReader reader_ UDAPL_GUARDED_BY(lock_){iwarp::MpaKind::kReply};
  Timer timeout_;
  Timer retry_;
  Deferred failed_early_;
};

}  // namespace udapl::soft
