// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/id.h"

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/verbs/status.h"

#include <cerrno>
#include <cstring>

namespace udapl::verbs {

namespace {

// Whether the owner waits for no further event after this one.
bool is_end(rdma_cm_event_type event) noexcept {
  switch (event) {
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_connected(rdma_cm_event_type event) noexcept {
  return event == RDMA_CM_EVENT_CONNECT_RESPONSE || event == RDMA_CM_EVENT_ESTABLISHED;
}

Result<std::unique_ptr<CmId>> CmId::create(Reactor& reactor, rdma_event_channel& channel,
                                           CmOwner& owner) {
  rdma_cm_id* raw = nullptr;
  if (::rdma_create_id(&channel, &raw, nullptr, RDMA_PS_TCP) != 0) {
    const int error = errno;
    const Status status = status_of(error, DAT_RESOURCE_TEP);
    UDAPL_EXPLAIN_ERRNO(kError, status.code(), error, "rdma_create_id");
    return status;
  }
  std::unique_ptr<CmId> id(new (std::nothrow) CmId(reactor, *raw, owner));
  if (id == nullptr) {
    ::rdma_destroy_id(raw);
    return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  }
  return id;
}

CmId::CmId(Reactor& reactor, rdma_cm_id& id, CmOwner& owner) noexcept
    : reactor_(reactor), id_(&id), owner_(&owner) {
  id_->context = this;
}

CmId::~CmId() { ::rdma_destroy_id(id_); }

// Only the driving thread delivers events. So if that thread calls this, either no delivery is in
// progress, or it is inside a delivery and already holds the lock.
void CmId::set_owner(CmOwner& owner) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
  if (reactor_.driven_here()) {
    owner_ = &owner;
    return;
  }
  const ScopedLock lock(lock_);
  owner_ = &owner;
}

// A connection request is an event of the listener; the new id inherits the listener's context.
void CmId::deliver(const rdma_cm_event& event) noexcept {
  auto* const id = static_cast<CmId*>(event.id->context);
  const ScopedLock lock(id->lock_);
  if (is_end(event.event) || is_connected(event.event)) id->set_awaits_outcome(false);
  if (is_end(event.event)) id->over_.store(true, std::memory_order_release);
  id->owner_->on_cm_event(event);
}

}  // namespace udapl::verbs
