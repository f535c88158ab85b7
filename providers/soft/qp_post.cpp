// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: posting. Checks, fills a request in place, and sends at once what can be sent.
#include "providers/soft/cq.h"
#include "providers/soft/mr.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"

#include <utility>

namespace udapl::soft {

using transport::WorkFlags;
using transport::WorkId;

namespace {

std::span<const DAT_LMR_TRIPLET> list_of(const DAT_LMR_TRIPLET* segments,
                                         DAT_COUNT count) noexcept {
  return {segments, static_cast<std::size_t>(count)};
}

// What a consumer is told of its own window or registration that cannot be a sink.
DAT_RETURN local_error(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNotThisStream:
      return dat_error(DAT_PROTECTION_VIOLATION);
    case Refusal::kToWrap:
    case Refusal::kBounds:
      return dat_error(DAT_INVALID_PARAMETER);
    default:
      return dat_error(DAT_PRIVILEGES_VIOLATION);
  }
}

}  // namespace

// `fill` completes the request, with its segments; what it refuses is not queued.
template <class Fill>
DAT_RETURN Qp::post(RequestKind kind, WorkId id, WorkFlags flags, Fill fill) noexcept {
  const ScopedLock lock(lock_);
  if (state_ != State::kReady) [[unlikely]] {
    if (state_ == State::kError) return post_flushed(kind, id, flags);
    if (state_ != State::kTerminating) return dat_error(DAT_INVALID_STATE);
  }
  if (requests_.full()) [[unlikely]]
    return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

  Request& request = requests_.next();
  request.id = id;
  request.flags = flags;
  request.kind = kind;
  request.invalidate = request.write_sent = request.done = false;
  request.segment_count = 0;
  request.length = 0;
  request.status = DAT_DTO_SUCCESS;
  const DAT_RETURN filled = fill(request, requests_.segments(requests_.tail()));
  if (filled != DAT_SUCCESS) [[unlikely]]
    return filled;
  requests_.push();
  send_posted(request.length);
  return DAT_SUCCESS;
}

// A system call for each of many small requests would cost more than all the rest.
void Qp::send_posted(std::uint32_t length) noexcept {
  gathered_bytes_ += length;
  if (blocked_) return;
  if (posts_in_place_ >= kPostsInPlace && gathered_bytes_ < kGatheredBytes &&
      requests_.tail() - built_ < kGatheredRequests && reactor_.polled()) {
    send_gathered_.post_for_poll();
    return;
  }
  ++posts_in_place_;
  transmit(kPostBudget);
  settle();
}

void Qp::send_gathered() noexcept {
  const ScopedLock lock(lock_);
  posts_in_place_ = 0;
  if (blocked_) return;
  transmit(kPassBudget);
  settle();
}

DAT_RETURN Qp::post_flushed(RequestKind kind, WorkId id, WorkFlags flags) noexcept {
  Request request{};
  request.id = id;
  request.flags = flags;
  request.kind = kind;
  report(request, DAT_DTO_ERR_FLUSHED);
  return DAT_SUCCESS;
}

// Send, RDMA Write, RDMA Read: those with a list of local segments.
DAT_RETURN Qp::post_message(RequestKind kind, WorkId id, std::span<const DAT_LMR_TRIPLET> list,
                            const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                            WorkFlags flags) noexcept {
  return post(kind, id, flags, [&](Request& request, Segment* segments) UDAPL_REQUIRES(lock_) {
    std::uint64_t total = 0;
    const DAT_RETURN checked =
        resolve_list(memory_, pd_, kind == RequestKind::kRead ? kLocalWrite : kLocalRead, list,
                     requests_.max_segments(), segments, request.segment_count, total);
    if (checked != DAT_SUCCESS) return checked;
    if (total > UINT32_MAX) return dat_error(DAT_LENGTH_ERROR);
    if (kind == RequestKind::kRead) {
      if (total < remote.segment_length) return dat_error(DAT_LENGTH_ERROR);
      total = remote.segment_length;
    }
    request.length = static_cast<std::uint32_t>(total);
    request.stag = remote.rmr_context;
    request.to = remote.virtual_address;
    request.operand[0] = immediate;
    return DAT_RETURN{DAT_SUCCESS};
  });
}

DAT_RETURN Qp::post_send(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                         WorkFlags flags) noexcept {
  return post_message(RequestKind::kSend, id, list_of(segments, count), {}, 0, flags);
}

DAT_RETURN Qp::post_send_invalidate(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                                    DAT_RMR_CONTEXT context, WorkFlags flags) noexcept {
  return post(RequestKind::kSend, id, flags,
              [&](Request& request, Segment* out) UDAPL_REQUIRES(lock_) {
                std::uint64_t total = 0;
                const DAT_RETURN checked =
                    resolve_list(memory_, pd_, kLocalRead, list_of(segments, count),
                                 requests_.max_segments(), out, request.segment_count, total);
                if (checked != DAT_SUCCESS) return checked;
                if (total > UINT32_MAX) return dat_error(DAT_LENGTH_ERROR);
                request.length = static_cast<std::uint32_t>(total);
                request.stag = context;
                request.invalidate = true;
                return DAT_RETURN{DAT_SUCCESS};
              });
}

DAT_RETURN Qp::post_rdma_write(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                               const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return post_message(RequestKind::kWrite, id, list_of(segments, count), remote, 0, flags);
}

DAT_RETURN Qp::post_write_immediate(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                                    const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                    WorkFlags flags) noexcept {
  return post_message(RequestKind::kWriteImmediate, id, list_of(segments, count), remote, immediate,
                      flags);
}

DAT_RETURN Qp::post_rdma_read(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                              const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return post_message(RequestKind::kRead, id, list_of(segments, count), remote, 0, flags);
}

DAT_RETURN Qp::post_rdma_read_to_rmr(WorkId id, const DAT_RMR_TRIPLET& sink,
                                     const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return post(
      RequestKind::kRead, id, flags, [&](Request& request, Segment* out) UDAPL_REQUIRES(lock_) {
        if (sink.segment_length < remote.segment_length) return dat_error(DAT_LENGTH_ERROR);
        if (remote.segment_length != 0) {
          MrTable::Pin pin;
          const Refusal refusal = memory_.access({sink.rmr_context, sink.virtual_address,
                                                  remote.segment_length, kRemoteWrite, pd_, id_},
                                                 out[0], pin);
          if (refusal != Refusal::kNone) return local_error(refusal);
          request.segment_count = 1;
        }
        request.length = remote.segment_length;
        request.stag = remote.rmr_context;
        request.to = remote.virtual_address;
        return DAT_RETURN{DAT_SUCCESS};
      });
}

DAT_RETURN Qp::post_bind(WorkId id, const transport::BindRequest& bind, WorkFlags flags,
                         DAT_RMR_CONTEXT* context) noexcept {
  DAT_RMR_CONTEXT created = 0;
  const DAT_RETURN posted =
      post(RequestKind::kBind, id, flags, [&](Request& request, Segment*) UDAPL_REQUIRES(lock_) {
        const auto* const mr = static_cast<const Mr*>(bind.mr);
        const MrRef ref = mr == nullptr ? MrRef{} : mr->ref();
        const DAT_RETURN prepared =
            memory_.prepare_bind(pd_, static_cast<const Window*>(bind.window)->index(),
                                 mr == nullptr ? nullptr : &ref, bind, request.bind);
        created = request.bind.stag;
        return prepared;
      });
  if (posted == DAT_SUCCESS) *context = created;
  return posted;
}

DAT_RETURN Qp::post_atomic(RequestKind kind, WorkId id, const DAT_LMR_TRIPLET& local,
                           const DAT_RMR_TRIPLET& remote, std::uint64_t first, std::uint64_t second,
                           WorkFlags flags) noexcept {
  return post(kind, id, flags, [&](Request& request, Segment* out) UDAPL_REQUIRES(lock_) {
    if (local.segment_length != sizeof(std::uint64_t) ||
        remote.virtual_address % sizeof(std::uint64_t) != 0)
      return dat_error(DAT_INVALID_PARAMETER);
    const DAT_RETURN checked = memory_.resolve(local, pd_, kLocalWrite, out[0]);
    if (checked != DAT_SUCCESS) return checked;
    request.segment_count = 1;
    request.length = sizeof(std::uint64_t);
    request.stag = remote.rmr_context;
    request.to = remote.virtual_address;
    request.operand[0] = first;
    request.operand[1] = second;
    return DAT_RETURN{DAT_SUCCESS};
  });
}

DAT_RETURN Qp::post_fetch_add(WorkId id, const DAT_LMR_TRIPLET& local,
                              const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                              WorkFlags flags) noexcept {
  return post_atomic(RequestKind::kFetchAdd, id, local, remote, add, 0, flags);
}

DAT_RETURN Qp::post_compare_swap(WorkId id, const DAT_LMR_TRIPLET& local,
                                 const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                                 std::uint64_t swap, WorkFlags flags) noexcept {
  return post_atomic(RequestKind::kCompareSwap, id, local, remote, compare, swap, flags);
}

DAT_RETURN Qp::post_recv(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                         WorkFlags flags) noexcept {
  if (srq_ != nullptr) [[unlikely]]
    return dat_error(DAT_INVALID_STATE);
  const ScopedLock lock(lock_);
  if (receives_.full()) [[unlikely]]
    return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  Receive& receive = receives_.next();
  receive.id = id;
  receive.flags = flags;
  if (state_ == State::kError) [[unlikely]] {
    receive.segment_count = 0;
    receives_.push();
    flush_receives();
    return DAT_SUCCESS;
  }
  const DAT_RETURN checked =
      resolve_list(memory_, pd_, kLocalWrite, list_of(segments, count), receives_.max_segments(),
                   receives_.segments(receives_.tail()), receive.segment_count, receive.room);
  if (checked != DAT_SUCCESS) [[unlikely]]
    return checked;
  receives_.push();
  if (soft_mark_ >= 0 || hard_mark_ >= 0) [[unlikely]] {
    check_watermarks();
    settle();
  }
  return DAT_SUCCESS;
}

}  // namespace udapl::soft
