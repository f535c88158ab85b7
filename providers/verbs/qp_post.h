// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Qp: posting, the hot paths. Included by qp.h.
#include "providers/verbs/cq.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <cstddef>

namespace udapl::verbs {

// A segment list is passed, not converted.
static_assert(sizeof(DAT_LMR_TRIPLET) == sizeof(ibv_sge));
static_assert(offsetof(DAT_LMR_TRIPLET, virtual_address) == offsetof(ibv_sge, addr));
static_assert(offsetof(DAT_LMR_TRIPLET, segment_length) == offsetof(ibv_sge, length));
static_assert(offsetof(DAT_LMR_TRIPLET, lmr_context) == offsetof(ibv_sge, lkey));
[[nodiscard]] inline ibv_sge* to_sge(const DAT_LMR_TRIPLET* list) noexcept {
  // Verbs does not write through it.
  return reinterpret_cast<ibv_sge*>(const_cast<DAT_LMR_TRIPLET*>(list));
}

static_assert(transport::kSignalled << 1 == IBV_SEND_SIGNALED);
static_assert(transport::kSolicited << 1 == IBV_SEND_SOLICITED);
static_assert(transport::kFence >> 2 == IBV_SEND_FENCE);
[[nodiscard]] constexpr unsigned send_flags(transport::WorkFlags flags) noexcept {
  return ((flags & (transport::kSignalled | transport::kSolicited)) << 1) |
         ((flags & transport::kFence) >> 2);
}

// ---- one signalled segment ----------------------------------------------------------------------

// What the caches are primed with. Requests: the key; allowed are inline segments. Receives: key
// and length, as most are of one length.
[[nodiscard]] inline std::uint64_t shape_of(const DAT_LMR_TRIPLET& segment) noexcept {
  return std::uint64_t{segment.lmr_context} << 32U | segment.segment_length;
}

[[gnu::always_inline]] inline Qp::PreparedRequest* Qp::prepare(Prepared& prepared,
                                                               transport::WorkId id,
                                                               const DAT_LMR_TRIPLET& segment,
                                                               std::uint32_t length) noexcept {
  PreparedRequest* found = &prepared.inlined;
  // An empty segment looks like the longest one.
  if (length - 1 < max_inline_) [[likely]] {
    if (!request_regions_.allows(segment.lmr_context, segment.virtual_address)) [[unlikely]]
      return nullptr;
  } else {
    const KnownRegion* const region = request_regions_.find(segment.lmr_context);
    if (length == 0 || region == nullptr || !region->contains(segment)) [[unlikely]]
      return nullptr;
    found = &prepared.plain;
  }
  found->request.wr_id = id;
  found->request.sg_list = to_sge(&segment);
  return found;
}

[[gnu::always_inline]] inline DAT_RETURN Qp::submit(PreparedRequest& prepared) noexcept {
  const int error = ibv_post_send(qp_, &prepared.request, &prepared.refused);
  if (error != 0) [[unlikely]]
    return point::refused("ibv_post_send", error);
  return DAT_SUCCESS;
}

[[gnu::always_inline]] inline DAT_RETURN Qp::post_one_send(transport::WorkId id,
                                                           const DAT_LMR_TRIPLET& segment,
                                                           std::uint32_t length) noexcept {
  PreparedRequest* const prepared = prepare(send_, id, segment, length);
  if (prepared == nullptr) [[unlikely]]
    return post_send(id, &segment, 1, transport::kSignalled);
  return submit(*prepared);
}

[[gnu::always_inline]] inline DAT_RETURN Qp::post_one_write(
    transport::WorkId id, const DAT_LMR_TRIPLET& segment, std::uint32_t length,
    const DAT_RMR_TRIPLET& remote) noexcept {
  PreparedRequest* const prepared = prepare(write_, id, segment, length);
  if (prepared == nullptr) [[unlikely]]
    return post_rdma_write(id, &segment, 1, remote, transport::kSignalled);
  prepared->request.wr.rdma.remote_addr = remote.virtual_address;
  prepared->request.wr.rdma.rkey = remote.rmr_context;
  return submit(*prepared);
}

[[gnu::always_inline]] inline DAT_RETURN Qp::post_recv(transport::WorkId id,
                                                       const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                                       transport::WorkFlags flags) noexcept {
  if (count != 1 || flags != transport::kSignalled ||
      !receive_regions_.allows(shape_of(*list), list->virtual_address)) [[unlikely]]
    return post_any_recv(id, list, count, flags);
  receive_.receive.wr_id = receive_wr_id(id, transport::kSignalled);
  receive_.receive.sg_list = to_sge(list);
  const int error = ibv_post_recv(qp_, &receive_.receive, &receive_.refused);
  if (error != 0) [[unlikely]]
    return point::refused("ibv_post_recv", error);
  return DAT_SUCCESS;
}

}  // namespace udapl::verbs
