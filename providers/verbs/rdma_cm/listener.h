// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"
#include "providers/verbs/rdma_cm/id.h"
#include "providers/verbs/rdma_cm/incoming.h"

#include <deque>
#include <memory>

namespace udapl::verbs {

class Adapter;

// A listening rdma_cm id. Thread-safe. Owned by a service point. The destructor frees the port and
// refuses every request that the sink has not got.
class RdmaListener final : public transport::Listener, private CmOwner {
 public:
  RdmaListener(Adapter& adapter, RdmaConnector& connector, transport::ListenSink& sink);
  ~RdmaListener() override;
  RdmaListener(const RdmaListener&) = delete;
  RdmaListener& operator=(const RdmaListener&) = delete;

  // Binds to `place` (its port is ignored) and listens; conn_qual 0: where there is room. Errors of
  // transport::Adapter::listen. Throws std::bad_alloc. Once.
  Status start(const transport::SocketAddress& place, DAT_CONN_QUAL conn_qual);

  [[nodiscard]] DAT_CONN_QUAL conn_qual() const noexcept override { return conn_qual_; }
  [[nodiscard]] const transport::SocketAddress& address() const noexcept override {
    return address_;
  }

 private:
  void on_cm_event(const rdma_cm_event& event) noexcept override UDAPL_EXCLUDES(lock_);
  void deliver(unsigned call) noexcept UDAPL_EXCLUDES(lock_);

  Adapter& adapter_;
  RdmaConnector& connector_;
  transport::ListenSink& sink_;
  std::unique_ptr<CmId> id_;          // unchanged after start()
  transport::SocketAddress address_;  // the same
  DAT_CONN_QUAL conn_qual_ = 0;       // the same

  Mutex lock_;
  std::deque<std::unique_ptr<RdmaIncoming>> waiting_ UDAPL_GUARDED_BY(lock_);
  SinkGate gate_;
};

}  // namespace udapl::verbs
