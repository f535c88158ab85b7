// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "providers/verbs/connector.h"
#include "providers/verbs/rdma_cm/cm_state.h"
#include "providers/verbs/rdma_cm/id.h"
#include "providers/verbs/rdma_cm/wire.h"

#include <memory>

namespace udapl::verbs {

class RdmaConnector;

// A connection by rdma_cm: its id, from the resolving of addresses to rdma_disconnect. What is left
// to wait for then the RdmaConnector waits for. `lock_` is inside the QP's and CmId's, and not held
// while the QP is told. Thread-safe as CmConnection says. Owned by a Qp, before by a RdmaIncoming.
class RdmaConnection final : public CmConnection, private CmOwner {
 public:
  // Active side. Errors of Connector::prepare. Throws std::bad_alloc.
  static Result<std::unique_ptr<RdmaConnection>> create(Adapter& adapter, RdmaConnector& connector,
                                                        const transport::ConnectRequest& request,
                                                        ConnectionEnd& end);
  // Passive side: takes over the id of an RDMA_CM_EVENT_CONNECT_REQUEST, while it is handled. Null:
  // no memory, and the id is left to the caller.
  static std::unique_ptr<RdmaConnection> take(Adapter& adapter, RdmaConnector& connector,
                                              const rdma_cm_event& event) noexcept;
  ~RdmaConnection() override;
  RdmaConnection(const RdmaConnection&) = delete;
  RdmaConnection& operator=(const RdmaConnection&) = delete;

  // ---- CmConnection
  // ------------------------------------------------------------------------------
  Result<bool> start(const QpTerms& terms) override UDAPL_EXCLUDES(lock_);
  void attach(ConnectionEnd& end, const QpTerms& terms) noexcept override UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool peer_gone() const noexcept override UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool reply(transport::PrivateData data) noexcept override;
  [[nodiscard]] bool on_our_port(const void* qp) const noexcept override;
  [[nodiscard]] bool attributes(ibv_qp_state state, ibv_qp_attr& attr, int& mask) noexcept override;
  [[nodiscard]] bool confirm() noexcept override UDAPL_EXCLUDES(lock_);
  void refuse() noexcept override;
  void first_message_came() noexcept override;
  void disconnect(bool answers) noexcept override;
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override UDAPL_EXCLUDES(lock_);

  // ---- for RdmaIncoming ------------------------------------------------------------------------
  // The consumer refuses.
  void reject(transport::PrivateData data) noexcept;
  // Reads that the peer takes, and that it wants to have outstanding towards us.
  [[nodiscard]] int peer_read_in() const noexcept { return peer_read_in_; }
  [[nodiscard]] int peer_read_out() const noexcept { return peer_read_out_; }

 private:
  RdmaConnection(Adapter& adapter, RdmaConnector& connector, ConnectionEnd* end,
                 CmState state) noexcept;

  // By the driver.
  void on_cm_event(const rdma_cm_event& event) noexcept override UDAPL_EXCLUDES(lock_);
  void resolve_route() noexcept UDAPL_EXCLUDES(lock_);
  void resolve_again(const rdma_cm_event& event) noexcept UDAPL_EXCLUDES(lock_);
  void send_request() noexcept UDAPL_EXCLUDES(lock_);
  void on_rejected(const rdma_cm_event& event) noexcept;
  void on_lost(const rdma_cm_event& event) noexcept;
  void unreachable() noexcept;

  void set_state(CmState next) noexcept UDAPL_REQUIRES(lock_);
  // The ends of a connection that is there, as the id knows them.
  void note_endpoints() noexcept UDAPL_EXCLUDES(lock_);

  Adapter& adapter_;
  RdmaConnector& connector_;
  const bool active_;
  std::unique_ptr<CmId> id_;
  ConnectionEnd* end_;     // unchanged after start() or attach(), as the next four
  QpTerms terms_{};        //
  wire::Message request_;  // active side
  int peer_read_in_ = -1;  // passive side, as the next
  int peer_read_out_ = -1;
  bool awaits_peer_ = false;  // rdma_disconnect was called, and the peer has not; by the QP

  mutable Mutex lock_;
  CmState state_ UDAPL_GUARDED_BY(lock_);
  bool peer_gone_ UDAPL_GUARDED_BY(lock_) = false;
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t tries_ UDAPL_GUARDED_BY(lock_) = 0;  // to resolve an address, a route
};

}  // namespace udapl::verbs
