// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/result.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/watch.h"
#include "providers/verbs/cm_id.h"

#include <boost/intrusive/list.hpp>

#include <memory>

namespace udapl::verbs {

class Adapter;

// The connection manager of an adapter: as the driver it reads the events of its rdma_cm
// channel and gives each to the owner of its id, makes ids and listeners, and keeps the ids of
// connections that are over until the peer has answered. Thread-safe. Owned by the Adapter, which
// outlives all QPs and listeners.
class ConnectionManager final : private CmOwner {
 public:
  // How an id leaves its owner.
  enum class Farewell {
    kAbort,  // destroyed as soon as possible
    kLinger  // rdma_disconnect was called: kept until the peer has answered or rdma_cm gives up
  };

  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  static Result<std::unique_ptr<ConnectionManager>> create(Adapter& adapter);
  explicit ConnectionManager(Adapter& adapter) noexcept;
  // Destroys what lingers, without waiting for peers.
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // An id at the adapter's address, with the options of the environment. Errors of CmId::create.
  Result<std::unique_ptr<CmId>> make_id(CmOwner& owner);

  // Takes an id that its owner has done with. As CmId::set_owner: no lock of the owner is held,
  // unless by the driver.
  void retire(std::unique_ptr<CmId> id, Farewell how) noexcept UDAPL_EXCLUDES(lock_);

  // transport::Adapter::listen.
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest& request,
                                                      transport::ListenSink& sink);

 private:
  using Ids =
      boost::intrusive::list<CmId, boost::intrusive::member_hook<CmId, CmId::Hook, &CmId::hook>,
                             boost::intrusive::constant_time_size<false>>;

  void on_readable() noexcept;
  void on_cm_event(const rdma_cm_event& event) noexcept override UDAPL_EXCLUDES(lock_);
  void bury() noexcept UDAPL_EXCLUDES(lock_);

  Adapter& adapter_;
  Mutex lock_;                             // a leaf
  Ids lingering_ UDAPL_GUARDED_BY(lock_);  // owned
  Ids dead_ UDAPL_GUARDED_BY(lock_);       // owned; destroyed by bury()
  Watch watch_;
  Deferred burial_;
};

// Connection qualifiers are ports of RDMA_PS_TCP. Larger ones are folded as existing providers fold
// them, so that both ends agree.
[[nodiscard]] constexpr std::uint16_t port_of(DAT_CONN_QUAL qualifier) noexcept {
  constexpr DAT_CONN_QUAL kPorts = 65536;
  constexpr DAT_CONN_QUAL kFolded = 32001;
  constexpr DAT_CONN_QUAL kFirstFolded = 33534;
  return static_cast<std::uint16_t>(qualifier < kPorts ? qualifier
                                                       : qualifier % kFolded + kFirstFolded);
}

// Reasons of an InfiniBand rejection that mean something to us.
inline constexpr int kConsumerReject = 28;

// For traces; never null.
[[nodiscard]] const char* name_of(rdma_cm_event_type event) noexcept;
// Why a request was rejected. InfiniBand: the reason of the message; iWARP: an errno value.
[[nodiscard]] const char* reject_reason(int status, bool iwarp) noexcept;

}  // namespace udapl::verbs
