// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/qp_handle.h"

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/mr.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/srq.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <cerrno>

namespace udapl::verbs {

using transport::QpInit;

namespace {

// For internal requests: invalidations before binds, the marker of a graceful disconnect.
constexpr int kSpareRequests = 16;

std::uint32_t at_least_one(int number) noexcept {
  return static_cast<std::uint32_t>(std::max(number, 1));
}

// If a device has less room for inline data than requested, it refuses the QP without reporting how
// much it has; so this retries with less.
QpHandle create_with_inline(Adapter& adapter, ibv_pd* pd, const ibv_qp_init_attr& wanted) {
  constexpr std::uint32_t kMinInline = 16;
  for (std::uint32_t bytes = adapter.max_inline();; bytes = bytes > kMinInline ? bytes / 2 : 0) {
    ibv_qp_init_attr attr = wanted;
    attr.cap.max_inline_data = bytes;
    QpHandle qp(point::made("ibv_create_qp", ::ibv_create_qp(pd, &attr)));
    if (qp != nullptr) adapter.fewer_inline(bytes);
    if (qp != nullptr || errno != EINVAL || bytes == 0) return qp;
  }
}

}  // namespace

void DestroyQp::operator()(ibv_qp* qp) const noexcept {
  const int error = ::ibv_destroy_qp(qp);
  if (error != 0) UDAPL_TRACE(kError, "ibv_destroy_qp: %s", ErrnoText(error).c_str());
}

Result<QpHandle> create_qp(Adapter& adapter, Qp& owner, const QpInit& init) {
  const Device& device = adapter.device();
  const ibv_device_attr& limits = device.attr.orig_attr;
  ibv_qp_init_attr attr{};
  attr.qp_context = &owner;
  attr.send_cq = static_cast<Cq*>(init.request_cq)->get();
  attr.recv_cq = static_cast<Cq*>(init.recv_cq)->get();
  attr.srq = init.srq != nullptr ? static_cast<Srq*>(init.srq)->get() : nullptr;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = static_cast<std::uint32_t>(
      std::max(std::min(init.max_request + kSpareRequests, limits.max_qp_wr), init.max_request));
  attr.cap.max_send_sge = at_least_one(init.max_request_segments);
  attr.cap.max_recv_wr = init.srq != nullptr ? 0 : at_least_one(init.max_recv);
  attr.cap.max_recv_sge = init.srq != nullptr ? 0 : at_least_one(init.max_recv_segments);
  QpHandle qp = create_with_inline(adapter, static_cast<Pd*>(init.pd)->get(), attr);
  if (qp == nullptr) {
    const int error = errno;
    const Status status = status_of(error, DAT_RESOURCE_TEP);
    UDAPL_EXPLAIN_ERRNO(kError, status.code(), error,
                        "ibv_create_qp with %d requests of %d segments, %d receives of %d",
                        init.max_request, init.max_request_segments, init.max_recv,
                        init.max_recv_segments);
    return status;
  }

  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.pkey_index = kInitialPkey;
  state.port_num = device.port;
  state.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (device.has_atomics()) state.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  if (limits.max_mw > 0) state.qp_access_flags |= IBV_ACCESS_MW_BIND;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int error = point::ended("ibv_modify_qp", "INIT", ::ibv_modify_qp(qp.get(), &state, kMask));
  if (error != 0) {
    const Status status = status_of(error, DAT_RESOURCE_TEP);
    UDAPL_EXPLAIN_ERRNO(kError, status.code(), error, "ibv_modify_qp to INIT, port %d",
                        device.port);
    return status;
  }
  return qp;
}

}  // namespace udapl::verbs
