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
  param->ep_state = state();
  param->comm = config_.comm;
  // The pointers in the consumer's structure are not const; consumers must not write through them.
  const auto address = [](const transport::SocketAddress& from) {
    return from.family() == 0 ? nullptr : const_cast<sockaddr*>(from.get());
  };
  const transport::Endpoints& ends = connection_.endpoints();
  param->local_ia_address_ptr =
      address(ends.local.family() != 0 ? ends.local : ia->attributes().address);
  param->local_port_qual = ends.local_port;
  param->remote_ia_address_ptr = address(ends.remote);
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

namespace calls {

DAT_RETURN ep_query(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK, DAT_EP_PARAM* param) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    ep->query(param);
    param->ia_handle = ep->ia->handle();
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
