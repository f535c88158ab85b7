// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/result.h"
#include "providers/reactor/watch.h"
#include "providers/verbs/connector.h"
#include "providers/verbs/rdma_cm/id.h"

#include <boost/intrusive/list.hpp>

#include <memory>

namespace udapl::verbs {

// Connections by rdma_cm. In the driving thread it reads the events of the adapter's rdma_cm
// channel and passes each to the owner of its id. It creates ids and listeners, and keeps the ids
// of ended connections until the peer has answered. Thread-safe. Owned by the Adapter, which
// outlives all QPs and listeners.
class RdmaConnector final : public Connector, private CmOwner {
 public:
  // How an id leaves its owner.
  enum class Teardown {
    kNow,       // destroyed as soon as this does not block: on iWARP after the outcome of a set-up
    kAwaitPeer  // after rdma_disconnect: kept until the peer has answered or rdma_cm gives up
  };

  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  static Result<std::unique_ptr<Connector>> open(Adapter& adapter);
  // Destroys lingering ids without waiting for peers. On iWARP, however, the kernel waits for the
  // outcome of set-ups.
  ~RdmaConnector() override;
  RdmaConnector(const RdmaConnector&) = delete;
  RdmaConnector& operator=(const RdmaConnector&) = delete;

  Result<std::unique_ptr<CmConnection>> prepare(const transport::ConnectRequest& request,
                                                ConnectionEnd& end) override;
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest& request,
                                                      transport::ListenSink& sink) override;

  // ---- for RdmaConnection and RdmaListener -----------------------------------------------------
  // An id at the adapter's address, with the options of the environment. Errors of CmId::create.
  Result<std::unique_ptr<CmId>> make_id(CmOwner& owner);

  // Takes an id that its owner no longer needs. Waits for a call of the owner that runs in another
  // thread: as for CmId::set_owner, hold no lock of the owner, except in the driving thread.
  void retire(std::unique_ptr<CmId>&& id, Teardown how) noexcept UDAPL_EXCLUDES(lock_);

 private:
  struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const noexcept {
      rdma_destroy_event_channel(channel);
    }
  };
  using Channel = std::unique_ptr<rdma_event_channel, DestroyChannel>;
  using Ids =
      boost::intrusive::list<CmId, boost::intrusive::member_hook<CmId, CmId::Hook, &CmId::hook>,
                             boost::intrusive::constant_time_size<false>>;

  RdmaConnector(Adapter& adapter, Channel channel) noexcept;
  void on_readable() noexcept;
  void on_cm_event(const rdma_cm_event& event) noexcept override UDAPL_EXCLUDES(lock_);
  void destroy_retired_ids() noexcept UDAPL_EXCLUDES(lock_);

  Adapter& adapter_;
  const Channel channel_;                  // of all ids of the adapter
  Mutex lock_;                             // a leaf lock
  Ids lingering_ UDAPL_GUARDED_BY(lock_);  // owned
  Ids dead_ UDAPL_GUARDED_BY(lock_);       // owned; destroyed by destroy_retired_ids()
  Watch watch_;
  Deferred destruction_;
};

// The ConnectorKit of rdma_cm.
extern const ConnectorKit kRdmaCm;

}  // namespace udapl::verbs
