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

// The connections of a Qp, one after the other: set-up, end, time limits, and what the core is told
// of them. Owns the connection manager's part of each (CmConnection) while there is one, and moves
// the queue through its states. Owned by a Qp, with whose lock it
// works.
//
// connection.cpp: set-up, time. connection_end.cpp: how a connection ends.
class Connection final : private ConnectionEnd {
 public:
  Connection(QpShared& shared, QpLock& lock, Queue& queue);
  // REQUIRES: shut_down().
  ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Waits for calls that run in other threads, also of the queue. REQUIRES: no ibv_qp is left.
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
    return state_ == QpState::kIdle;
  }
  [[nodiscard]] bool may_reset() const noexcept UDAPL_REQUIRES(qp_locked) {
    return step(state_, QpEvent::kReset).allowed;
  }
  // Waits until no sink call is under way or will come. No lock held, unless by the driver.
  void drain_calls() noexcept UDAPL_EXCLUDES(qp_locked) { report_.drain(); }
  void stop_timer() noexcept UDAPL_REQUIRES(qp_locked) { timer_.stop(); }
  // As after the constructor: the queue has a new ibv_qp.
  void become_idle() noexcept UDAPL_REQUIRES(qp_locked);
  // By the driver, the event not acknowledged yet.
  void on_async_event(ibv_event_type event) noexcept UDAPL_EXCLUDES(qp_locked);
  // By the driver: what polls and posts found.
  void handle_reports() noexcept UDAPL_EXCLUDES(qp_locked);

 private:
  static constexpr std::size_t kPeerData = 256;  // more than any connection manager carries
  // What the one timer is for.
  enum class Timing : std::uint8_t { kNothing, kConnect, kAccept, kDrain, kSrqRelease };

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
  void set_state(QpState next) noexcept UDAPL_REQUIRES(qp_locked);
  void on_timer() noexcept UDAPL_EXCLUDES(qp_locked);

  // connection_end.cpp
  // Tells nobody.
  void enter_error() noexcept UDAPL_REQUIRES(qp_locked);
  // Does what the state table says of `event`. By the driver, unless the CmConnection goes on: it
  // may be destroyed.
  void take(QpEvent event) noexcept UDAPL_REQUIRES(qp_locked);
  void break_connection(transport::BreakCause cause) noexcept UDAPL_REQUIRES(qp_locked);
  void look_for_drain() noexcept UDAPL_EXCLUDES(qp_locked);
  void check_watermarks() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool connected() const noexcept UDAPL_REQUIRES(qp_locked) {
    return state_ == QpState::kReady || state_ == QpState::kDraining;
  }

  QpShared& shared_;
  QpLock& lock_;
  Queue& queue_;

  QpState state_ UDAPL_GUARDED_BY(qp_locked) = QpState::kIdle;
  // None unless connected, or about to be.
  std::unique_ptr<CmConnection> cm_ UDAPL_GUARDED_BY(qp_locked);
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(qp_locked);
  DAT_TIMEOUT request_timeout_us_ UDAPL_GUARDED_BY(qp_locked) = 0;
  Clock::duration drain_pause_ UDAPL_GUARDED_BY(qp_locked){};  // between looks at the CQ

  // Last: what calls us goes first.
  PhaseTimer<Timing> timer_ UDAPL_GUARDED_BY(qp_locked);
  ConnectionReport<kPeerData> report_;
};

}  // namespace udapl::verbs
