// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Qp: posting, the hot paths. Included by qp.h.
#include "providers/verbs/cq.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/status.h"

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

// Inline data is copied without a look at the memory's registration. So it is used only for memory
// that is known to be registered; everything else goes to the device, which checks.
[[gnu::always_inline]] inline bool Qp::may_inline(const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                                  std::uint64_t total) noexcept {
  if (total > max_inline_) return false;
  const std::uint64_t generation = memory_.generation();
  for (DAT_COUNT i = 0; i < count; ++i) {
    const DAT_LMR_TRIPLET& segment = list[i];
    const DAT_VLEN offset = segment.virtual_address - region_.first;
    if (segment.lmr_context != region_.key || region_.generation != generation ||
        offset > region_.length || segment.segment_length > region_.length - offset) [[unlikely]]
      if (!learn_region(segment)) return false;
  }
  return true;
}

[[gnu::always_inline]] inline DAT_RETURN Qp::submit(ibv_send_wr& request) noexcept {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &request, &bad);
  if (error != 0) [[unlikely]]
    return post_error(error);
  return DAT_SUCCESS;
}

// A send or a write. REQUIRES: `request` has its opcode and what belongs to that.
[[gnu::always_inline]] inline DAT_RETURN Qp::post_message(ibv_send_wr& request,
                                                          transport::WorkId id,
                                                          const DAT_LMR_TRIPLET* list,
                                                          DAT_COUNT count,
                                                          transport::WorkFlags flags) noexcept {
  std::uint64_t total = 0;
  bool has_empty = false;
  for (DAT_COUNT i = 0; i < count; ++i) {
    total += list[i].segment_length;
    has_empty |= list[i].segment_length == 0;
  }
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  request.wr_id = request_wr_id(id, flags);
  request.next = nullptr;
  request.sg_list = to_sge(list);
  request.num_sge = count;
  request.send_flags = send_flags(flags);
  if (has_empty) [[unlikely]]
    return post_without_empty(request);
  if (may_inline(list, count, total)) request.send_flags |= IBV_SEND_INLINE;
  return submit(request);
}

inline DAT_RETURN Qp::post_send(transport::WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                transport::WorkFlags flags) noexcept {
  ibv_send_wr request;
  request.opcode = IBV_WR_SEND;
  return post_message(request, id, list, count, flags);
}

inline DAT_RETURN Qp::post_send_invalidate(transport::WorkId id, const DAT_LMR_TRIPLET* list,
                                           DAT_COUNT count, DAT_RMR_CONTEXT context,
                                           transport::WorkFlags flags) noexcept {
  ibv_send_wr request;
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.invalidate_rkey = context;
  return post_message(request, id, list, count, flags);
}

inline DAT_RETURN Qp::post_rdma_write(transport::WorkId id, const DAT_LMR_TRIPLET* list,
                                      DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
                                      transport::WorkFlags flags) noexcept {
  ibv_send_wr request;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = remote.virtual_address;
  request.wr.rdma.rkey = remote.rmr_context;
  return post_message(request, id, list, count, flags);
}

inline DAT_RETURN Qp::post_rdma_read(transport::WorkId id, const DAT_LMR_TRIPLET* list,
                                     DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
                                     transport::WorkFlags flags) noexcept {
  std::uint64_t total = 0;
  bool has_empty = false;
  for (DAT_COUNT i = 0; i < count; ++i) {
    total += list[i].segment_length;
    has_empty |= list[i].segment_length == 0;
  }
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  ibv_send_wr request;
  request.wr_id = request_wr_id(id, flags);
  request.next = nullptr;
  request.sg_list = to_sge(list);
  request.num_sge = count;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = send_flags(flags);
  request.wr.rdma.remote_addr = remote.virtual_address;
  request.wr.rdma.rkey = remote.rmr_context;
  // Verbs reads as much as there is room for.
  if (has_empty || total != remote.segment_length) [[unlikely]]
    return post_trimmed_read(request, remote.segment_length);
  return submit(request);
}

inline DAT_RETURN Qp::post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                transport::WorkFlags flags) noexcept {
  if ((flags & transport::kQuiet) != 0) [[unlikely]]
    recv_cq_->expect_quiet();
  ibv_recv_wr receive;
  receive.wr_id = receive_wr_id(id, flags);
  receive.next = nullptr;
  receive.sg_list = to_sge(list);
  receive.num_sge = count;
  bool special = in_error_.load(std::memory_order_relaxed) ||
                 watermarked_.load(std::memory_order_relaxed) || !own_receives_;
  for (DAT_COUNT i = 0; i < count; ++i) special |= list[i].segment_length == 0;
  if (special) [[unlikely]]
    return post_recv_slowly(receive);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_, &receive, &bad);
  if (error != 0) [[unlikely]]
    return post_error(error);
  posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return DAT_SUCCESS;
}

}  // namespace udapl::verbs
