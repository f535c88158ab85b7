// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp.h"
#include "providers/connecting/connection_report.h"
#include "providers/connecting/phase_timer.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/accepted_connections.h"
#include "providers/soft/connection_state.h"
#include "providers/soft/connector.h"
#include "providers/soft/intake.h"
#include "providers/soft/link.h"
#include "providers/soft/qp_shared.h"
#include "providers/soft/queue.h"
#include "providers/soft/settings.h"
#include "providers/soft/staging_pool.h"

#include <chrono>
#include <memory>
#include <optional>

namespace udapl::soft {

// The parts of an adapter that a Qp uses, and settings. The parts outlive the Qp.
struct QpEnvironment {
  Reactor& reactor;
  MrTable& memory;
  Connector& connector;
  StagingPool& staging;
  AcceptedConnections& accepted;
  Clock::duration drain_limit = Settings{}.drain_limit;
  Clock::duration peer_timeout = Settings{}.peer_timeout;
  std::optional<Clock::duration> no_receive_limit{};
  Clock::duration first_message_limit = kFirstMessageLimit;
  bool confirms_writes = true;  // RDMA Writes complete when the peer has placed their data
};

// The connections of a Qp, one at a time: set-up, end, time limits, and the reports to the core.
// Owns the link while there is one. Owned by a Qp, and uses its lock; the annotations tell which
// functions need it held.
//
// connection.cpp: set-up and states. connection_input.cpp: the functions that the driving thread
// calls when there is input. connection_end.cpp: the end, and time limits.
class Connection final : private Handler {
 public:
  // `end`: the object that a connection manager calls, whose functions call attach() and
  // on_failed() here. The `srq_buffer` call of the queue must call on_srq_buffer(). Throws
  // std::bad_alloc.
  Connection(const QpEnvironment& environment, transport::ConnectionSink& sink, ConnectionEnd& end,
             QpShared& shared, QpLock& lock, Queue& queue);
  // REQUIRES: shut_down().
  ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Ends the connection, if there is one. Waits for calls that run in other threads.
  void shut_down() noexcept UDAPL_EXCLUDES(qp_locked);

  // ---- transport::Qp ----------------------------------------------------------------------------
  Status connect(const transport::ConnectRequest& request) UDAPL_EXCLUDES(qp_locked);
  void disconnect(transport::DisconnectMode mode) noexcept UDAPL_EXCLUDES(qp_locked);
  Status reset() UDAPL_EXCLUDES(qp_locked);
  [[nodiscard]] transport::Endpoints endpoints() const noexcept UDAPL_REQUIRES(qp_locked) {
    return handshake_ != nullptr ? handshake_->endpoints() : endpoints_;
  }

  // Takes the link (leaves `link` null) and uses it from now on. If `link` is null:
  // INSUFFICIENT_RESOURCES. Otherwise as ConnectionEnd::attach.
  Status attach(std::unique_ptr<Link>& link, const Negotiated& negotiated) noexcept
      UDAPL_EXCLUDES(qp_locked);

  // ---- ConnectionEnd ----------------------------------------------------------------------------
  Status attach(std::unique_ptr<ByteStream>& stream, const Negotiated& negotiated) noexcept
      UDAPL_EXCLUDES(qp_locked);
  void on_failed(SetupFailure why, transport::PrivateData from_peer) noexcept
      UDAPL_EXCLUDES(qp_locked);

  // ---- for the Qp -------------------------------------------------------------------------------
  [[nodiscard]] bool idle() const noexcept UDAPL_REQUIRES(qp_locked) {
    return state_ == State::kIdle;
  }
  [[nodiscard]] bool connected() const noexcept UDAPL_REQUIRES(qp_locked) {
    return is_connected(state_);
  }
  // Handles a Fault that the entry point has raised, and a drain that is finished. Every entry
  // point calls it last.
  void settle() noexcept UDAPL_REQUIRES(qp_locked);
  // Reads what has arrived, if it may contain an answer that confirms requests. May end the
  // connection.
  void look_for_confirmations() noexcept UDAPL_REQUIRES(qp_locked) {
    if (queue_.awaits_placement_answer()) catch_up();
  }
  // Whether the calling thread is the driving thread.
  [[nodiscard]] bool driven_here() const noexcept { return reactor_.driven_here(); }
  // Called after a receive was posted.
  void receive_posted() noexcept UDAPL_REQUIRES(qp_locked) {
    if (intake_.waits()) [[unlikely]]
      release_waiting();
  }
  void on_srq_buffer() noexcept UDAPL_EXCLUDES(qp_locked);
  void report_soft_watermark() noexcept { report_.post(SinkCall::kSoftWatermark); }

 private:
  // The grace period and the kick: docs/semantics.md#iwarp-peers.
  static constexpr auto kGracePeriod = std::chrono::milliseconds(50);
  static constexpr auto kFirstKick = std::chrono::milliseconds(5);

  using State = ConnectionState;
  using Event = ConnectionEvent;
  // An end of the stream that is put off; see puts_off().
  struct PutOff {
    Intake::Event end = Intake::Event::kNone;
    int turns = 0;            // in which it was put off; 0: no end is put off
    int accepted = 0;         // AcceptedConnections::count() at the last look at the descriptors
    std::uint32_t looks = 0;  // Reactor::looks() then
  };
  // The purpose of the one timer.
  enum class Timing : std::uint8_t {
    kNothing,
    kFirstMessage,
    kGrace,
    kKick,
    kDrain,       // checks whether a drain makes progress
    kHalfClosed,  // limits the wait for the peer's FIN
    kTerminate
  };

  // Performs the step of the state table for `event`. Only this function changes the state. Returns
  // false if the event is not allowed in the current state.
  bool apply(Event event) noexcept UDAPL_REQUIRES(qp_locked);

  // connection.cpp
  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  Status use(Link* link, const Negotiated& negotiated) noexcept UDAPL_REQUIRES(qp_locked);
  void start_responder(const Negotiated& negotiated) noexcept UDAPL_REQUIRES(qp_locked);
  void start_initiator(const Negotiated& negotiated) noexcept UDAPL_REQUIRES(qp_locked);
  void established(Event event) noexcept UDAPL_REQUIRES(qp_locked);

  // connection_input.cpp
  void open_receive() noexcept UDAPL_EXCLUDES(qp_locked);
  void on_ready(std::uint32_t events) noexcept override UDAPL_EXCLUDES(qp_locked);
  Look look() noexcept override UDAPL_EXCLUDES(qp_locked);
  Look look_at_all() noexcept UDAPL_REQUIRES(qp_locked);
  void prepare() noexcept override UDAPL_EXCLUDES(qp_locked);
  bool rest() noexcept override UDAPL_EXCLUDES(qp_locked);
  void go_on(unsigned what) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool awaits_input() const noexcept UDAPL_REQUIRES(qp_locked);
  void catch_up() noexcept UDAPL_REQUIRES(qp_locked);
  void continue_receive() noexcept UDAPL_EXCLUDES(qp_locked);
  void on_debt_due() noexcept UDAPL_EXCLUDES(qp_locked);
  void on_wait_over() noexcept UDAPL_EXCLUDES(qp_locked);
  void release_waiting() noexcept UDAPL_REQUIRES(qp_locked);
  void act(Intake::Event event) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool puts_off(Intake::Event end) noexcept UDAPL_REQUIRES(qp_locked);

  // connection_end.cpp
  void on_timer() noexcept UDAPL_EXCLUDES(qp_locked);
  void end_of_stream() noexcept UDAPL_REQUIRES(qp_locked);
  void watch_drain() noexcept UDAPL_REQUIRES(qp_locked);
  void continue_drain() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Clock::duration drain_look() const noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool drain_stands_still() noexcept UDAPL_REQUIRES(qp_locked);
  void start_terminate() noexcept UDAPL_REQUIRES(qp_locked);
  void continue_terminate() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool prepare_end() noexcept UDAPL_REQUIRES(qp_locked);
  void finish(Close how) noexcept UDAPL_REQUIRES(qp_locked);
  void break_off(Event event, transport::BreakCause cause) noexcept UDAPL_REQUIRES(qp_locked);

  Reactor& reactor_;
  Connector& connector_;
  StagingPool& staging_;
  AcceptedConnections& accepted_;
  const Clock::duration drain_limit_;  // 0: none
  const Clock::duration first_message_limit_;
  ConnectionEnd& end_;
  QpShared& shared_;
  QpLock& lock_;
  Queue& queue_;

  State state_ UDAPL_GUARDED_BY(qp_locked) = State::kIdle;
  std::unique_ptr<Handshake> handshake_ UDAPL_GUARDED_BY(qp_locked);
  std::unique_ptr<Link> link_ UDAPL_GUARDED_BY(qp_locked);
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(qp_locked);
  int kicks_ UDAPL_GUARDED_BY(qp_locked) = 0;
  PutOff put_off_ UDAPL_GUARDED_BY(qp_locked);
  Link::Movement moved_ UDAPL_GUARDED_BY(qp_locked);     // at the last check of a drain
  Clock::duration still_ UDAPL_GUARDED_BY(qp_locked){};  // how long a drain has made no progress
  Intake intake_;

  // The last members, so destroyed first: their calls use the other members.
  PhaseTimer<Timing> timer_ UDAPL_GUARDED_BY(qp_locked);
  Deferred open_receive_;
  ConnectionReport<iwarp::kMpaMaxPrivateData> report_;
};

}  // namespace udapl::soft
