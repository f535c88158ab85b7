// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/result.h"
#include "providers/reactor/watch.h"

#include <boost/intrusive/list.hpp>

#include <atomic>
#include <memory>

namespace udapl::verbs {

class CmId;

// Whether the event says that a request or reply has led to a connection.
[[nodiscard]] bool is_connected(rdma_cm_event_type event) noexcept;

// The current receiver of the events of an rdma_cm id.
class CmOwner {
 public:
  // Called by the driving thread. The event is not acknowledged yet, so its id stays valid: the
  // callee may pass the id on (CmId::set_owner, RdmaConnector::retire), but destroys no id and
  // makes no sink call. Takes the owner's locks.
  virtual void on_cm_event(const rdma_cm_event& event) noexcept = 0;

 protected:
  ~CmOwner() = default;
};

// Owns an rdma_cm id and routes its events. Thread-safe: events may arrive at any time; everything
// else is called by the holder of the unique_ptr.
class CmId {
 public:
  // A new id of RDMA_PS_TCP. INSUFFICIENT_RESOURCES, INTERNAL_ERROR. Throws std::bad_alloc.
  static Result<std::unique_ptr<CmId>> create(Reactor& reactor, rdma_event_channel& channel,
                                              CmOwner& owner);
  // Takes over the id of a connection request while that event is handled.
  CmId(Reactor& reactor, rdma_cm_id& id, CmOwner& owner) noexcept;
  // Ends the connection or attempt and notifies the peer, once, without waiting for an answer,
  // except for the outcome of an iWARP connection. Waits for an event that the driving thread is
  // handling: the caller holds no lock of an owner, and is not inside on_cm_event.
  ~CmId();
  CmId(const CmId&) = delete;
  CmId& operator=(const CmId&) = delete;

  [[nodiscard]] rdma_cm_id* get() const noexcept { return id_; }

  // After it has returned, the former owner is not called any more. Waits for a running call in
  // another thread: hold no lock of the former owner, except in the driving thread.
  void set_owner(CmOwner& owner) noexcept UDAPL_EXCLUDES(lock_);
  // Returns whether rdma_cm has reported the end of the connection or attempt, to any owner: the
  // end may arrive while the id passes from one owner to the next.
  [[nodiscard]] bool over() const noexcept { return over_.load(std::memory_order_acquire); }
  // Between a request or reply and the report of its outcome, rdma_destroy_id of an iWARP id waits
  // for that outcome. Set before rdma_connect or rdma_accept, and cleared if that fails; the
  // outcome clears it.
  void set_awaits_outcome(bool awaits) noexcept {
    awaits_outcome_.store(awaits, std::memory_order_release);
  }
  [[nodiscard]] bool awaits_outcome() const noexcept {
    return awaits_outcome_.load(std::memory_order_acquire);
  }
  // For RdmaConnector: passes an event to the owner of its id.
  static void deliver(const rdma_cm_event& event) noexcept;

  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  Hook hook;  // used by the RdmaConnector

 private:
  Reactor& reactor_;
  rdma_cm_id* const id_;
  Mutex lock_;  // held while the owner is called; acquired before all locks of owners
  CmOwner* owner_ UDAPL_GUARDED_BY(lock_);
  std::atomic<bool> over_{false};
  std::atomic<bool> awaits_outcome_{false};
};

}  // namespace udapl::verbs
