// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Queue: posts other than a single segment of a known registration: lists, empty segments, atomics,
// receives on a QP in error.
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/compact_list.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/trace_points.h"

namespace udapl::verbs {

using transport::WorkFlags;
using transport::WorkId;

void Queue::prepare_requests() noexcept {
  const auto prepare = [](Prepared& prepared, ibv_wr_opcode opcode) {
    prepared = {};
    ibv_send_wr& request = prepared.plain.request;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    prepared.inlined.request = request;
    prepared.inlined.request.send_flags |= IBV_SEND_INLINE;
  };
  prepare(send_, IBV_WR_SEND);
  prepare(write_, IBV_WR_RDMA_WRITE);
  read_ = {};
  read_.request = write_.plain.request;
  read_.request.opcode = IBV_WR_RDMA_READ;
  receive_ = {};
  receive_.receive.num_sge = 1;
}

DAT_RETURN Queue::submit(ibv_send_wr& request) noexcept {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &request, &bad);
  if (error != 0) return point::refused("ibv_post_send", error);
  return DAT_SUCCESS;
}

[[gnu::always_inline]] inline DAT_RETURN Queue::submit(ibv_recv_wr& receive) noexcept {
  ibv_recv_wr* bad = nullptr;
  const auto post = [&] { return ibv_post_recv(qp_, &receive, &bad); };
  int error = post();
  if (error != 0) [[unlikely]]
    error = post_again(receive, error, post);
  if (error != 0) [[unlikely]]
    return point::refused("ibv_post_recv", error);
  return DAT_SUCCESS;
}

// ---- segments ----------------------------------------------------------------------------------

// Lets posts that are like this one take the fast path from now on.
void Queue::expect_requests_like(const DAT_LMR_TRIPLET& segment) noexcept {
  const std::uint64_t forgotten = request_regions_.forgotten();
  const KnownRegion* const region = request_regions_.find(segment.lmr_context);
  if (region != nullptr && region->length >= max_inline_)
    request_regions_.prime(region->key, region->first, region->length - max_inline_ + 1, forgotten);
}

void Queue::expect_receives_like(const DAT_LMR_TRIPLET& segment) noexcept {
  const std::uint64_t forgotten = receive_regions_.forgotten();
  const KnownRegion* const region = receive_regions_.find(segment.lmr_context);
  if (region != nullptr && region->contains(segment))
    receive_regions_.prime(shape_of(segment), region->first,
                           region->length - segment.segment_length + 1, forgotten);
}

[[gnu::always_inline]] inline Queue::CheckedList Queue::check_all(const DAT_LMR_TRIPLET* list,
                                                                  DAT_COUNT count,
                                                                  SegmentUse use) noexcept {
  CheckedList checked;
  for (DAT_COUNT i = 0; i < count; ++i) {
    if (list[i].segment_length == 0) [[unlikely]] {
      checked.has_empty = true;
      continue;
    }
    checked.total += list[i].segment_length;
    checked.code = request_regions_.check(list[i], use);
    if (checked.code != DAT_SUCCESS) [[unlikely]]
      break;
  }
  return checked;
}

// ---- sends, writes, reads, receives ------------------------------------------------------------

// Posts a send or a write. REQUIRES: the opcode of `request` and the fields specific to it are set.
[[gnu::always_inline]] inline DAT_RETURN Queue::post_message(ibv_send_wr& request, WorkId id,
                                                             const DAT_LMR_TRIPLET* list,
                                                             DAT_COUNT count,
                                                             WorkFlags flags) noexcept {
  const CheckedList checked = check_all(list, count, SegmentUse::kRead);
  if (checked.code != DAT_SUCCESS) [[unlikely]]
    return post_invalid(id, flags, checked.code);
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  request.wr_id = request_wr_id(id, flags);
  request.next = nullptr;
  request.sg_list = to_sge(list);
  request.num_sge = count;
  request.send_flags = send_flags(flags);
  if (checked.has_empty) [[unlikely]]
    return post_compact(request, UINT64_MAX);
  // Not inline with a fence: an earlier read may still write the data, so it must not be copied
  // now.
  if (checked.total <= max_inline_ && (flags & transport::kFence) == 0) {
    request.send_flags |= IBV_SEND_INLINE;
    if (count == 1) expect_requests_like(*list);
  }
  return submit(request);
}

[[gnu::always_inline]] inline DAT_RETURN Queue::post_send(WorkId id, const DAT_LMR_TRIPLET* list,
                                                          DAT_COUNT count,
                                                          WorkFlags flags) noexcept {
  ibv_send_wr request;
  request.opcode = IBV_WR_SEND;
  return post_message(request, id, list, count, flags);
}

[[gnu::always_inline]] inline DAT_RETURN Queue::post_send_invalidate(WorkId id,
                                                                     const DAT_LMR_TRIPLET* list,
                                                                     DAT_COUNT count,
                                                                     DAT_RMR_CONTEXT context,
                                                                     WorkFlags flags) noexcept {
  ibv_send_wr request;
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.invalidate_rkey = context;
  return post_message(request, id, list, count, flags);
}

[[gnu::always_inline]] inline DAT_RETURN Queue::post_rdma_write(WorkId id,
                                                                const DAT_LMR_TRIPLET* list,
                                                                DAT_COUNT count,
                                                                const DAT_RMR_TRIPLET& remote,
                                                                WorkFlags flags) noexcept {
  ibv_send_wr request;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = remote.virtual_address;
  request.wr.rdma.rkey = remote.rmr_context;
  return post_message(request, id, list, count, flags);
}

[[gnu::always_inline]] inline DAT_RETURN Queue::post_rdma_read(WorkId id,
                                                               const DAT_LMR_TRIPLET* list,
                                                               DAT_COUNT count,
                                                               const DAT_RMR_TRIPLET& remote,
                                                               WorkFlags flags) noexcept {
  const CheckedList checked = check_all(list, count, SegmentUse::kWrite);
  if (checked.code != DAT_SUCCESS) [[unlikely]]
    return post_invalid(id, flags, checked.code);
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  if (!unserved_reads_.served()) [[unlikely]]
    return post_unserved(id, flags);
  ibv_send_wr request;
  request.wr_id = request_wr_id(id, flags);
  request.next = nullptr;
  request.sg_list = to_sge(list);
  request.num_sge = count;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = send_flags(flags);
  request.wr.rdma.remote_addr = remote.virtual_address;
  request.wr.rdma.rkey = remote.rmr_context;
  // Verbs reads as many bytes as the segments hold.
  if (checked.has_empty || checked.total != remote.segment_length) [[unlikely]]
    return post_compact(request, remote.segment_length);
  return submit(request);
}

// Handles a request with invalid segments. After the end of a connection it is posted without its
// segments, and flushed like any other; otherwise it is refused.
DAT_RETURN Queue::post_invalid(WorkId id, WorkFlags flags, DAT_RETURN why) noexcept {
  if (!in_error_.load(std::memory_order_acquire)) return why;
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  return post_nothing(request_wr_id(id, flags), flags);
}

// Posts a Send from invalid memory, which fails in order with the other requests and does not reach
// the peer.
DAT_RETURN Queue::post_unserved(WorkId id, WorkFlags flags) noexcept {
  constexpr std::uint32_t kNoKey = 0xffffffff;
  ibv_sge nowhere{.addr = 0, .length = 1, .lkey = kNoKey};
  ibv_send_wr request{};
  request.wr_id = request_wr_id(id, flags);
  request.sg_list = &nowhere;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  unserved_reads_.add(request.wr_id);
  return submit(request);
}

[[gnu::always_inline]] inline DAT_RETURN Queue::post_recv(WorkId id, const DAT_LMR_TRIPLET* list,
                                                          DAT_COUNT count,
                                                          WorkFlags flags) noexcept {
  if ((flags & transport::kQuiet) != 0) recv_cq_->expect_quiet();
  ibv_recv_wr receive;
  receive.wr_id = receive_wr_id(id, flags);
  receive.next = nullptr;
  receive.sg_list = to_sge(list);
  receive.num_sge = count;
  bool special = special_receives();
  for (DAT_COUNT i = 0; i < count; ++i) {
    if (list[i].segment_length == 0) [[unlikely]] {
      special = true;
      continue;
    }
    const DAT_RETURN checked = receive_regions_.check(list[i], SegmentUse::kReceive);
    if (checked == DAT_SUCCESS) [[likely]]
      continue;
    if (!in_error_.load(std::memory_order_acquire)) return checked;
    receive.num_sge = 0;  // flushed like any other
    return post_recv_slow_path(receive);
  }
  if (special) [[unlikely]]
    return post_recv_slow_path(receive);
  if (count == 1) expect_receives_like(*list);
  return submit(receive);
}

DAT_RETURN Queue::post_compact(ibv_send_wr& request, std::uint64_t limit) noexcept {
  CompactList list(request.sg_list, request.num_sge, limit);
  if (!list.fits) return CompactList::kTooMany;
  request.sg_list = list.segments;
  request.num_sge = static_cast<int>(list.size);
  return submit(request);
}

DAT_RETURN Queue::post_recv_slow_path(ibv_recv_wr& receive) noexcept {
  if (!own_receives_) return dat_error(DAT_INVALID_STATE);
  CompactList list(receive.sg_list, receive.num_sge, UINT64_MAX);
  if (!list.fits) return CompactList::kTooMany;
  receive.sg_list = list.segments;
  receive.num_sge = static_cast<int>(list.size);
  const DAT_RETURN code = submit(receive);
  if (code != DAT_SUCCESS) return code;
  if (in_error_.load(std::memory_order_acquire)) flush();
  // The core holds its lock of this queue, so a sink call must neither be made nor waited for here.
  if (watermarks_.armed()) reports_.post();
  return DAT_SUCCESS;
}

[[gnu::always_inline]] inline DAT_RETURN Queue::post_write_immediate(
    WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
    std::uint32_t immediate, WorkFlags flags) noexcept {
  if (!extensions_) return dat_error(DAT_MODEL_NOT_SUPPORTED);
  ibv_send_wr request;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = immediate;  // not byte-swapped, as in OpenFabrics
  request.wr.rdma.remote_addr = remote.virtual_address;
  request.wr.rdma.rkey = remote.rmr_context;
  return post_message(request, id, list, count, flags);
}

[[gnu::always_inline]] inline DAT_RETURN Queue::post_atomic(
    ibv_wr_opcode operation, WorkId id, const DAT_LMR_TRIPLET& local, const DAT_RMR_TRIPLET& remote,
    std::uint64_t first, std::uint64_t second, WorkFlags flags) noexcept {
  if (!extensions_) return dat_error(DAT_MODEL_NOT_SUPPORTED);
  if (local.segment_length != sizeof(std::uint64_t) ||
      remote.virtual_address % sizeof(std::uint64_t) != 0)
    return dat_error(DAT_INVALID_PARAMETER);
  const DAT_RETURN checked = request_regions_.check(local, SegmentUse::kWrite);
  if (checked != DAT_SUCCESS) return post_invalid(id, flags, checked);
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  if (!unserved_reads_.served()) return post_unserved(id, flags);
  ibv_send_wr request{};
  request.wr_id = request_wr_id(id, flags);
  request.sg_list = to_sge(&local);
  request.num_sge = 1;
  request.opcode = operation;
  request.send_flags = send_flags(flags);
  request.wr.atomic.remote_addr = remote.virtual_address;
  request.wr.atomic.rkey = remote.rmr_context;
  request.wr.atomic.compare_add = first;
  request.wr.atomic.swap = second;
  return submit(request);
}

// ---- functions of Qp ---------------------------------------------------------------------------
// Defined here so that the functions of Queue are inlined into them: another call would cost up to
// four instructions.

DAT_RETURN Qp::post_any_recv(WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                             WorkFlags flags) noexcept {
  return queue_.post_recv(id, list, count, flags);
}

DAT_RETURN Qp::post_send(WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                         WorkFlags flags) noexcept {
  return queue_.post_send(id, list, count, flags);
}

DAT_RETURN Qp::post_send_invalidate(WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                    DAT_RMR_CONTEXT context, WorkFlags flags) noexcept {
  return queue_.post_send_invalidate(id, list, count, context, flags);
}

DAT_RETURN Qp::post_rdma_write(WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                               const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return queue_.post_rdma_write(id, list, count, remote, flags);
}

DAT_RETURN Qp::post_rdma_read(WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                              const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return queue_.post_rdma_read(id, list, count, remote, flags);
}

DAT_RETURN Qp::post_write_immediate(WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                    const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                    WorkFlags flags) noexcept {
  return queue_.post_write_immediate(id, list, count, remote, immediate, flags);
}

DAT_RETURN Qp::post_fetch_add(WorkId id, const DAT_LMR_TRIPLET& local,
                              const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                              WorkFlags flags) noexcept {
  return queue_.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, id, local, remote, add, 0, flags);
}

DAT_RETURN Qp::post_compare_swap(WorkId id, const DAT_LMR_TRIPLET& local,
                                 const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                                 std::uint64_t swap, WorkFlags flags) noexcept {
  return queue_.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, id, local, remote, compare, swap, flags);
}

}  // namespace udapl::verbs
