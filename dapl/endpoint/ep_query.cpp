// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/ep.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

namespace udapl::dapl {

void Ep::query(DAT_EP_PARAM* param) {
  const ScopedLock lock(mutex_);
  param->ep_state = has_failed() ? DAT_EP_STATE_DISCONNECTED : state();
  param->comm = config_.comm;
  // The pointers in DAT_EP_PARAM are not const; consumers must not write through them.
  const auto address = [](const transport::SocketAddress& from) {
    return from.family() == 0 ? nullptr : const_cast<sockaddr*>(from.get());
  };
  const transport::Endpoints& ends = connection_.endpoints();
  param->local_ia_address_ptr =
      address(ends.local.family() != 0 ? ends.local : ia->attributes().address);
  param->local_port_qual = ends.local_port;
  // Never null: programs print it in every state, which works with OpenFabrics.
  param->remote_ia_address_ptr = const_cast<sockaddr*>(ends.remote.get());
  param->remote_port_qual = ends.remote_port;
  param->pz_handle = config_.pz;
  param->recv_evd_handle = config_.recv_evd;
  param->request_evd_handle = config_.request_evd;
  param->connect_evd_handle = config_.connect_evd;
  param->srq_handle = config_.srq;
  param->ep_attr = config_.attr;
  param->ep_attr.max_rdma_read_out =
      connection_.max_rdma_read_out().value_or(config_.attr.max_rdma_read_out);
}

DAT_EP_STATE Ep::shown_state() noexcept {
  const DAT_EP_STATE now = state();
  if (now != DAT_EP_STATE_CONNECTED) return now;
  const ScopedLock lock(mutex_);
  return has_failed() ? DAT_EP_STATE_DISCONNECTED : state();
}

bool Ep::requests_idle() noexcept {
  const ScopedLock lock(requests.lock);
  if (requests.discard != nullptr) requests.discard->drain();
  return requests.cookies.outstanding() == 0;
}

bool Ep::receives_idle() noexcept {
  {
    const ScopedLock lock(receives.lock);
    if (receives.discard != nullptr) receives.discard->drain();
    if (receives.cookies.outstanding() != 0) return false;
  }
  const ScopedLock lock(mutex_);
  return config_.srq == nullptr || qp_ == nullptr || qp_->receive_counts().held <= 0;
}

transport::ReceiveCounts Ep::receive_counts() {
  const ScopedLock lock(mutex_);
  if (qp_ == nullptr) return {0, 0};
  // A receive whose completion is queued is not held any more, but its cookie counts as in use
  // until the completion has been converted to an event.
  if (config_.recv_evd != nullptr) config_.recv_evd->reap();
  return qp_->receive_counts();
}

namespace calls {

DAT_RETURN ep_query(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK, DAT_EP_PARAM* param) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    ep->query(param);
    param->ia_handle = ep->ia->handle();
    ep->polled();
    return Status();
  });
}

DAT_RETURN ep_get_status(DAT_EP_HANDLE handle, DAT_EP_STATE* state, DAT_BOOLEAN* recv_idle,
                         DAT_BOOLEAN* request_idle) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    if (state != nullptr) *state = ep->shown_state();
    if (recv_idle != nullptr) *recv_idle = ep->receives_idle() ? DAT_TRUE : DAT_FALSE;
    if (request_idle != nullptr) *request_idle = ep->requests_idle() ? DAT_TRUE : DAT_FALSE;
    ep->polled();
    return Status();
  });
}

DAT_RETURN ep_recv_query(DAT_EP_HANDLE handle, DAT_COUNT* buffers, DAT_COUNT* span) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    const transport::ReceiveCounts counts = ep->receive_counts();
    if (buffers != nullptr) *buffers = counts.held;
    if (span != nullptr) *span = counts.span;
    ep->polled();
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
