// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/connecting/listening.h"
#include "providers/verbs/rdma_cm/id.h"
#include "providers/verbs/rdma_cm/incoming.h"

#include <memory>

namespace udapl::verbs {

class Adapter;

// A listening rdma_cm id. Thread-safe. Owned by a service point. The destructor frees the port and
// refuses every request that the sink has not received.
class RdmaListener final : public transport::Listener, private CmOwner {
 public:
  RdmaListener(Adapter& adapter, RdmaConnector& connector, transport::ListenSink& sink);
  ~RdmaListener() override;
  RdmaListener(const RdmaListener&) = delete;
  RdmaListener& operator=(const RdmaListener&) = delete;

  // Binds to `place` (its port is ignored) and listens; conn_qual 0 means any free port. Errors of
  // transport::Adapter::listen. Throws std::bad_alloc. Called once.
  Status start(const transport::SocketAddress& place, DAT_CONN_QUAL conn_qual);

  [[nodiscard]] DAT_CONN_QUAL conn_qual() const noexcept override { return conn_qual_; }
  [[nodiscard]] const transport::SocketAddress& address() const noexcept override {
    return address_;
  }

 private:
  void on_cm_event(const rdma_cm_event& event) noexcept override;

  Adapter& adapter_;
  RdmaConnector& connector_;
  std::unique_ptr<CmId> id_;          // unchanged after start()
  transport::SocketAddress address_;  // the same
  DAT_CONN_QUAL conn_qual_ = 0;       // the same

  RequestQueue requests_;
};

}  // namespace udapl::verbs
