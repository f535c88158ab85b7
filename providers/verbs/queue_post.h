// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Queue: the hot paths of posting. Included by queue.h.
#include "providers/verbs/cq.h"
#include "providers/verbs/queue.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <cstddef>

namespace udapl::verbs {

// Segment lists are passed to verbs as they are, without conversion.
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

// The tag with which the cache of receives is primed: key and length, as most receives have the
// same length. The cache of requests is primed with the key alone and allows inline segments.
[[nodiscard]] inline std::uint64_t shape_of(const DAT_LMR_TRIPLET& segment) noexcept {
  return std::uint64_t{segment.lmr_context} << 32U | segment.segment_length;
}

// Returns whether all segments lie in registrations that are cached, and none is empty. Most lists
// refer to a single registration.
[[nodiscard, gnu::always_inline]] inline bool all_cached(const RegionCache& known,
                                                         const DAT_LMR_TRIPLET* list,
                                                         DAT_COUNT count) noexcept {
  if (count < 1) [[unlikely]]
    return false;
  const DAT_LMR_TRIPLET* const end = list + count;
  const KnownRegion* region = known.find(list->lmr_context);
  if (region == nullptr) [[unlikely]]
    return false;
  for (const DAT_LMR_TRIPLET* segment = list;;) {
    const DAT_VLEN offset = segment->virtual_address - region->first;
    // For an empty segment, the length minus 1 wraps around, so that it fails the test.
    if (offset > region->length || DAT_VLEN{segment->segment_length} - 1 >= region->length - offset)
        [[unlikely]]
      return false;
    if (++segment == end) return true;
    if (segment->lmr_context != region->key) [[unlikely]] {
      region = known.find(segment->lmr_context);
      if (region == nullptr) return false;
    }
  }
}

// ---- requests ----------------------------------------------------------------------------------

[[gnu::always_inline]] inline Queue::PreparedRequest* Queue::prepare_segment(
    Prepared& prepared, const DAT_LMR_TRIPLET& segment, std::uint32_t length) noexcept {
  // For an empty segment, `length - 1` wraps around to the largest value, so it fails the test.
  if (length - 1 < max_inline_) [[likely]] {
    if (!request_regions_.allows(segment.lmr_context, segment.virtual_address)) [[unlikely]]
      return nullptr;
    return &prepared.inlined;
  }
  const KnownRegion* const region = request_regions_.find(segment.lmr_context);
  if (length == 0 || region == nullptr || !region->contains(segment)) [[unlikely]]
    return nullptr;
  return &prepared.plain;
}

[[gnu::always_inline]] inline Queue::PreparedRequest* Queue::prepare_list(
    Prepared& prepared, const transport::Transfer& transfer) noexcept {
  if (!all_cached(request_regions_, transfer.list, transfer.count)) [[unlikely]]
    return nullptr;
  return transfer.length <= max_inline_ ? &prepared.inlined : &prepared.plain;
}

[[gnu::always_inline]] inline Queue::PreparedRequest* Queue::prepare_read(
    const DAT_LMR_TRIPLET& segment, std::uint32_t length) noexcept {
  const KnownRegion* const region = request_regions_.find(segment.lmr_context);
  // Verbs reads as many bytes as the segment holds, so `length` must be its full length.
  if (region == nullptr || length == 0 || length != segment.segment_length || !region->writable ||
      !region->contains(segment) || !unserved_reads_.served()) [[unlikely]]
    return nullptr;
  return &read_;
}

template <transport::Operation kOperation, bool kOneSegment>
[[gnu::always_inline]] inline Queue::PreparedRequest* Queue::prepare(
    const transport::Transfer& transfer) noexcept {
  using transport::Operation;
  PreparedRequest* prepared = nullptr;
  if constexpr (kOperation == Operation::kRead) {
    if constexpr (kOneSegment)
      prepared = prepare_read(*transfer.list, static_cast<std::uint32_t>(transfer.length));
  } else {
    Prepared& both = kOperation == Operation::kSend ? send_ : write_;
    if constexpr (kOneSegment)
      prepared = prepare_segment(both, *transfer.list, static_cast<std::uint32_t>(transfer.length));
    else
      prepared = prepare_list(both, transfer);
  }
  if (kOperation != Operation::kSend && prepared != nullptr) [[likely]] {
    prepared->request.wr.rdma.remote_addr = transfer.remote->virtual_address;
    prepared->request.wr.rdma.rkey = transfer.remote->rmr_context;
  }
  return prepared;
}

// REQUIRES: the flags are kSignalled, or kQuiet with kSignalled or without.
template <bool kOneSegment>
[[gnu::always_inline]] inline DAT_RETURN Queue::submit(
    PreparedRequest& prepared, const transport::Transfer& transfer) noexcept {
  ibv_send_wr& request = prepared.request;
  request.wr_id = request_wr_id(transfer.id, transfer.flags);
  request.sg_list = to_sge(transfer.list);
  if constexpr (!kOneSegment) request.num_sge = transfer.count;
  const bool silent = (transfer.flags & transport::kSignalled) == 0;
  if ((transfer.flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  if (silent) request.send_flags &= ~unsigned{IBV_SEND_SIGNALED};
  const int error = post_send_(qp_, &request, &prepared.refused);
  if (silent) request.send_flags |= IBV_SEND_SIGNALED;
  if constexpr (!kOneSegment) request.num_sge = 1;
  if (error != 0) [[unlikely]]
    return point::refused("ibv_post_send", error);
  return DAT_SUCCESS;
}

// ---- receives ----------------------------------------------------------------------------------

[[gnu::always_inline]] inline bool Queue::is_primed_for(const DAT_LMR_TRIPLET* list,
                                                        DAT_COUNT count,
                                                        transport::WorkFlags flags) const noexcept {
  return count == 1 && flags == transport::kSignalled &&
         receive_regions_.allows(shape_of(*list), list->virtual_address);
}

[[gnu::always_inline]] inline bool Queue::may_receive(const DAT_LMR_TRIPLET* list,
                                                      DAT_COUNT count) const noexcept {
  return !special_receives() && all_cached(receive_regions_, list, count);
}

template <bool kOneSegment>
[[gnu::always_inline]] inline DAT_RETURN Queue::submit_receive(transport::WorkId id,
                                                               const DAT_LMR_TRIPLET* list,
                                                               DAT_COUNT count) noexcept {
  receive_.receive.wr_id = receive_wr_id(id, transport::kSignalled);
  receive_.receive.sg_list = to_sge(list);
  if constexpr (!kOneSegment) receive_.receive.num_sge = count;
  const int error = post_recv_(qp_, &receive_.receive, &receive_.refused);
  if constexpr (!kOneSegment) receive_.receive.num_sge = 1;
  if (error != 0) [[unlikely]]
    return point::refused("ibv_post_recv", error);
  return DAT_SUCCESS;
}

}  // namespace udapl::verbs
