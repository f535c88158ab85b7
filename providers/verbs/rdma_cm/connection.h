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

// A connection by rdma_cm: its id, from address resolution to rdma_disconnect. After that, the
// RdmaConnector waits for the peer. `lock_` is acquired inside the locks of the QP and the CmId,
// and is not held while the QP is called. Thread-safe as described at CmConnection. Owned by a Qp;
// before the consumer's decision, by an RdmaIncoming.
class RdmaConnection final : public CmConnection, private CmOwner {
 public:
  // Active side. Errors of Connector::prepare. Throws std::bad_alloc.
  static Result<std::unique_ptr<RdmaConnection>> create(Adapter& adapter, RdmaConnector& connector,
                                                        const transport::ConnectRequest& request,
                                                        ConnectionEnd& end);
  // Passive side: takes over the id of an RDMA_CM_EVENT_CONNECT_REQUEST while the event is handled.
  // Returns null if memory ran out; the caller then keeps the id.
  static std::unique_ptr<RdmaConnection> take(Adapter& adapter, RdmaConnector& connector,
                                              const rdma_cm_event& event) noexcept;
  ~RdmaConnection() override;
  RdmaConnection(const RdmaConnection&) = delete;
  RdmaConnection& operator=(const RdmaConnection&) = delete;

  // ---- CmConnection -----------------------------------------------------------------------------
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
  // Rejects the request on behalf of the consumer.
  void reject(transport::PrivateData data) noexcept;
  // The number of Reads that the peer serves at a time; the number that it wants to have
  // outstanding.
  [[nodiscard]] int peer_read_in() const noexcept { return peer_read_in_; }
  [[nodiscard]] int peer_read_out() const noexcept { return peer_read_out_; }

 private:
  RdmaConnection(Adapter& adapter, RdmaConnector& connector, ConnectionEnd* end,
                 CmState state) noexcept;

  // Called by the driving thread.
  void on_cm_event(const rdma_cm_event& event) noexcept override UDAPL_EXCLUDES(lock_);
  void resolve_route() noexcept UDAPL_EXCLUDES(lock_);
  void resolve_again(const rdma_cm_event& event) noexcept UDAPL_EXCLUDES(lock_);
  void send_request() noexcept UDAPL_EXCLUDES(lock_);
  void on_rejected(const rdma_cm_event& event) noexcept;
  void on_lost(const rdma_cm_event& event) noexcept;
  void unreachable() noexcept;

  void set_state(CmState next) noexcept UDAPL_REQUIRES(lock_);
  // Records the two ends of an established connection from the id.
  void note_endpoints() noexcept UDAPL_EXCLUDES(lock_);

  Adapter& adapter_;
  RdmaConnector& connector_;
  const bool active_;
  std::unique_ptr<CmId> id_;
  ConnectionEnd* end_;     // unchanged after start() or attach(), like the next four
  QpTerms terms_{};        //
  wire::Message request_;  // active side
  int peer_read_in_ = -1;  // passive side, like the next
  int peer_read_out_ = -1;
  bool awaits_peer_ = false;  // rdma_disconnect was called here before the peer; set by the QP

  mutable Mutex lock_;
  CmState state_ UDAPL_GUARDED_BY(lock_);
  bool peer_gone_ UDAPL_GUARDED_BY(lock_) = false;
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t tries_ UDAPL_GUARDED_BY(lock_) = 0;  // attempts to resolve the address or route
};

}  // namespace udapl::verbs
