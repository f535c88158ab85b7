// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp.h"
#include "providers/connecting/connection_report.h"
#include "providers/connecting/phase_timer.h"
#include "providers/reactor/reactor.h"
#include "providers/verbs/connection_state.h"
#include "providers/verbs/connector.h"
#include "providers/verbs/qp_shared.h"
#include "providers/verbs/queue.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace udapl::verbs {

// The successive connections of a Qp: set-up, end, time limits, and reports to the core. Owns the
// connection manager's part (CmConnection) of the current connection, and changes the states of the
// queue. Owned by a Qp; uses the lock of the Qp.
//
// connection.cpp: set-up, time. connection_end.cpp: how a connection ends.
class Connection final : private ConnectionEnd {
 public:
  Connection(QpShared& shared, QpLock& lock, Queue& queue);
  // REQUIRES: shut_down().
  ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Waits for calls that run in other threads, including those of the queue. REQUIRES: no ibv_qp is
  // left.
  void shut_down() noexcept UDAPL_EXCLUDES(qp_locked);

  // ---- transport::Qp ---------------------------------------------------------------------------
  Status connect(const transport::ConnectRequest& request) UDAPL_EXCLUDES(qp_locked);
  void disconnect(transport::DisconnectMode mode) noexcept UDAPL_EXCLUDES(qp_locked);
  [[nodiscard]] transport::Endpoints endpoints() const noexcept UDAPL_REQUIRES(qp_locked) {
    return endpoints_;
  }

  // ---- for the Qp ------------------------------------------------------------------------------
  Status accept(std::unique_ptr<CmConnection>& offered, transport::PrivateData private_data)
      UDAPL_EXCLUDES(qp_locked);
  [[nodiscard]] bool idle() const noexcept UDAPL_REQUIRES(qp_locked) {
    return state_ == State::kIdle;
  }
  [[nodiscard]] bool may_reset() const noexcept UDAPL_REQUIRES(qp_locked) {
    return connection_step(state_, Event::kReset).allowed;
  }
  // Waits until no sink call is in progress or pending. Hold no lock, except in the driving thread.
  void drain_calls() noexcept UDAPL_EXCLUDES(qp_locked) { report_.drain(); }
  void stop_timer() noexcept UDAPL_REQUIRES(qp_locked) { timer_.stop(); }
  // Returns to the initial state: the queue has a new ibv_qp.
  void become_idle() noexcept UDAPL_REQUIRES(qp_locked);
  // Called by the driving thread before it acknowledges the event.
  void on_async_event(ibv_event_type event) noexcept UDAPL_EXCLUDES(qp_locked);
  // Called by the driving thread: handles the findings of polls and posts.
  void handle_reports() noexcept UDAPL_EXCLUDES(qp_locked);

 private:
  using State = ConnectionState;
  using Event = ConnectionEvent;
  static constexpr std::size_t kPeerData = 256;  // more than any connection manager carries
  // The purpose of the one timer.
  enum class Timing : std::uint8_t {
    kNothing,
    kConnect,
    kAccept,
    kEnd,
    kDrain,
    kSrqRelease,
    kFlush
  };

  // connection.cpp
  // ---- ConnectionEnd
  void on_reply(CmConnection& connection, transport::PrivateData from_peer) noexcept override
      UDAPL_EXCLUDES(qp_locked);
  void on_established(CmConnection& connection, transport::PrivateData reply) noexcept override
      UDAPL_EXCLUDES(qp_locked);
  void on_failed(CmConnection& connection, SetupFailure why,
                 transport::PrivateData from_peer) noexcept override UDAPL_EXCLUDES(qp_locked);
  void on_lost(CmConnection& connection, Loss why) noexcept override UDAPL_EXCLUDES(qp_locked);
  // ----
  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  void established() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] QpTerms terms() const noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool to_ready() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool change_state(ibv_qp_state state) noexcept UDAPL_REQUIRES(qp_locked);
  void set_state(State next) noexcept UDAPL_REQUIRES(qp_locked);
  void on_timer() noexcept UDAPL_EXCLUDES(qp_locked);

  // connection_end.cpp
  // Enters the error state without a report.
  void enter_error() noexcept UDAPL_REQUIRES(qp_locked);
  // Carries out the state table's step for `event`. If the step ends the CmConnection, only the
  // driving thread may call this, because the CmConnection is destroyed here.
  void apply(Event event) noexcept UDAPL_REQUIRES(qp_locked);
  // Flushes again, because a receive may have been posted while the queue entered the error state.
  void flush_again() noexcept UDAPL_REQUIRES(qp_locked);
  void break_connection(transport::BreakCause cause) noexcept UDAPL_REQUIRES(qp_locked);
  void look_for_failure() noexcept UDAPL_EXCLUDES(qp_locked);
  void handle_failure(ibv_wc_status status, Event event) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool may_have_ended(ibv_wc_status failed) noexcept UDAPL_REQUIRES(qp_locked);
  void look_for_drain() noexcept UDAPL_EXCLUDES(qp_locked);
  // `left`: requests that have not completed.
  [[nodiscard]] bool drain_is_stuck(int left) noexcept UDAPL_REQUIRES(qp_locked);
  void check_watermarks() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool connected() const noexcept UDAPL_REQUIRES(qp_locked) {
    return state_ == State::kReady || state_ == State::kDraining;
  }

  QpShared& shared_;
  QpLock& lock_;
  Queue& queue_;

  State state_ UDAPL_GUARDED_BY(qp_locked) = State::kIdle;
  // Null unless connected or about to be.
  std::unique_ptr<CmConnection> cm_ UDAPL_GUARDED_BY(qp_locked);
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(qp_locked);
  DAT_TIMEOUT request_timeout_us_ UDAPL_GUARDED_BY(qp_locked) = 0;
  // During a graceful disconnect: the time between scans of the CQ, the least number of unfinished
  // requests that a scan has found, and the time since when that has not become less.
  Clock::duration drain_pause_ UDAPL_GUARDED_BY(qp_locked){};
  int drain_left_ UDAPL_GUARDED_BY(qp_locked) = 0;
  Clock::duration drain_still_ UDAPL_GUARDED_BY(qp_locked){};

  Clock::duration flush_pause_ UDAPL_GUARDED_BY(qp_locked){};  // until the next flush_again()

  // Last, so that they are destroyed first: they call this object.
  PhaseTimer<Timing> timer_ UDAPL_GUARDED_BY(qp_locked);
  ConnectionReport<kPeerData> report_;
};

}  // namespace udapl::verbs
