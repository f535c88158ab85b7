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

// The device would report it when the request is worked on, some with a status that says nothing,
// and inline data is copied without a look at its registration.
[[gnu::always_inline]] inline DAT_RETURN Qp::check(KnownRegions& known,
                                                   const DAT_LMR_TRIPLET& segment,
                                                   std::uint64_t generation, bool write) noexcept {
  const KnownRegion& region = entry_for(known, segment.lmr_context);
  const DAT_VLEN offset = segment.virtual_address - region.first;
  if (region.key != segment.lmr_context || region.generation != generation ||
      offset > region.length || segment.segment_length > region.length - offset ||
      (write && !region.writable)) [[unlikely]]
    return look_up(known, segment, write);
  return DAT_SUCCESS;
}

[[gnu::always_inline]] inline DAT_RETURN Qp::submit(ibv_send_wr& request) noexcept {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &request, &bad);
  if (error != 0) [[unlikely]]
    return point::refused("ibv_post_send", error);
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
  const std::uint64_t generation = memory_.generation();
  for (DAT_COUNT i = 0; i < count; ++i) {
    if (list[i].segment_length == 0) [[unlikely]] {
      has_empty = true;
      continue;
    }
    total += list[i].segment_length;
    const DAT_RETURN checked = check(request_regions_, list[i], generation, false);
    if (checked != DAT_SUCCESS) [[unlikely]]
      return checked;
  }
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  request.wr_id = request_wr_id(id, flags);
  request.next = nullptr;
  request.sg_list = to_sge(list);
  request.num_sge = count;
  request.send_flags = send_flags(flags);
  if (has_empty) [[unlikely]]
    return post_without_empty(request);
  // Behind a fence the data are those that a read brings: not what is in the memory now.
  if (total <= max_inline_ && (flags & transport::kFence) == 0)
    request.send_flags |= IBV_SEND_INLINE;
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
  const std::uint64_t generation = memory_.generation();
  for (DAT_COUNT i = 0; i < count; ++i) {
    if (list[i].segment_length == 0) [[unlikely]] {
      has_empty = true;
      continue;
    }
    total += list[i].segment_length;
    const DAT_RETURN checked = check(request_regions_, list[i], generation, true);
    if (checked != DAT_SUCCESS) [[unlikely]]
      return checked;
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
  const std::uint64_t generation = memory_.generation();
  for (DAT_COUNT i = 0; i < count; ++i) {
    if (list[i].segment_length == 0) [[unlikely]] {
      special = true;
      continue;
    }
    const DAT_RETURN checked = check(receive_regions_, list[i], generation, true);
    if (checked != DAT_SUCCESS) [[unlikely]]
      return checked;
  }
  if (special) [[unlikely]]
    return post_recv_slowly(receive);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_, &receive, &bad);
  if (error != 0) [[unlikely]]
    return point::refused("ibv_post_recv", error);
  posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return DAT_SUCCESS;
}

}  // namespace udapl::verbs
