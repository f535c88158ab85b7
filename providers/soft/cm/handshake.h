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

// The active side of connection setup: TCP connect, MPA Request, MPA Reply. Ends with one call of
// its ConnectionEnd, made by the driving thread. Thread-safe. Owned by the Qp; see Handshake.
//
// An attempt that fails is followed by another one if
// - there is no listener, because some servers inform their clients before they listen (dtestx
//   does), or the connection is reset, because a listener may have ended with the connection in its
//   backlog: a few times within 75 ms;
// - the peer hangs up on a Request of MPA revision 2, or resets such connections, and is not known
//   to be of our kind: with revision 1;
// - the peer drops the connection later, or without having got the Request, so that it has not seen
//   the revision: until the time limit; without one, eight times;
// - TCP gives up the peer's host, or the host does not tell its link address: until the time limit;
//   without one, the host is unreachable.
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
  // Schedules another attempt if `error` means that there is no listener, or that it has ended, and
  // attempts are left, or that the Request was lost, or that the host has not answered and there is
  // a time limit. Returns whether it did.
  [[nodiscard]] bool schedule_retry(int error) noexcept UDAPL_REQUIRES(lock_);
  // For a connection that the peer has ended without a Reply: whether it got the Request, and ended
  // soon after that; and whether it may have ended because of the Request.
  [[nodiscard]] bool ended_on_request() const noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool may_be_an_answer() const noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool may_appear() noexcept UDAPL_REQUIRES(lock_);
  void connected(Verdict& verdict) noexcept UDAPL_REQUIRES(lock_);
  // Offers shared memory to the peer, if possible. Returns whether the Request may be sent. kLater:
  // the peer has too many offers at the moment; retry_ is running. kNever: there is no offer
  // although path=shm requires one.
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
  const void* const subject_;  // of the call that connects, and so of all trace records: the EP
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
  bool unreachable_at_once_ UDAPL_GUARDED_BY(lock_) = false;  // so ended the attempt before
  Clock::time_point began_ UDAPL_GUARDED_BY(lock_);           // this attempt
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
