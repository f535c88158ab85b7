// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: posting, what is rare: empty segments, binds, atomics, receives on a QP in error.
#include "common/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/trace_points.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace udapl::verbs {

using transport::WorkFlags;
using transport::WorkId;

namespace {

// More segments than any device takes in one request.
constexpr std::size_t kMaxSegments = 256;

// The segments of a list that are not empty, up to `limit` bytes. Devices take an empty one for
// 2 GiB, or refuse it.
struct CompactList {
  CompactList(const ibv_sge* list, int count, std::uint64_t limit) noexcept {
    for (int i = 0; i < count && limit != 0; ++i) {
      if (list[i].length == 0) continue;
      if (size == kMaxSegments) {
        fits = false;
        return;
      }
      ibv_sge& segment = segments[size++];
      segment = list[i];
      segment.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, segment.length));
      limit -= segment.length;
    }
  }

  std::size_t size = 0;
  bool fits = true;
  ibv_sge segments[kMaxSegments];
};

constexpr DAT_RETURN kTooMany = dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

unsigned window_access(const transport::BindRequest& bind) noexcept {
  unsigned access = 0;
  if ((bind.privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0) access |= IBV_ACCESS_REMOTE_READ;
  if ((bind.privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0) access |= IBV_ACCESS_REMOTE_WRITE;
  if (bind.va_type == DAT_VA_TYPE_ZB) access |= IBV_ACCESS_ZERO_BASED;
  return access;
}

ibv_mw_bind_info bind_info(const transport::BindRequest& bind) noexcept {
  ibv_mw_bind_info info{};
  if (bind.range.segment_length == 0) return info;
  info.mr = static_cast<const Mr*>(bind.mr)->get();
  info.addr = bind.range.virtual_address;
  info.length = bind.range.segment_length;
  info.mw_access_flags = window_access(bind);
  return info;
}

}  // namespace

// In the order of udapl-semantics 6.4.
DAT_RETURN Qp::look_up(KnownRegions& known, const DAT_LMR_TRIPLET& segment, bool write) noexcept {
  const std::optional<MemoryTable::Region> region = memory_.find(segment.lmr_context);
  if (!region.has_value()) return dat_error(DAT_PRIVILEGES_VIOLATION);
  if (region->pd != qp_->pd) return dat_error(DAT_PROTECTION_VIOLATION);
  if (!region->contains(segment)) return dat_error(DAT_INVALID_PARAMETER);
  if (write && !region->writable) return dat_error(DAT_PRIVILEGES_VIOLATION);
  entry_for(known, segment.lmr_context) = {region->first, region->length, region->generation,
                                           segment.lmr_context, region->writable};
  return DAT_SUCCESS;
}

DAT_RETURN Qp::post_without_empty(ibv_send_wr& request) noexcept {
  CompactList list(request.sg_list, request.num_sge, UINT64_MAX);
  if (!list.fits) return kTooMany;
  request.sg_list = list.segments;
  request.num_sge = static_cast<int>(list.size);
  return submit(request);
}

DAT_RETURN Qp::post_trimmed_read(ibv_send_wr& request, std::uint32_t length) noexcept {
  CompactList list(request.sg_list, request.num_sge, length);
  if (!list.fits) return kTooMany;
  request.sg_list = list.segments;
  request.num_sge = static_cast<int>(list.size);
  return submit(request);
}

DAT_RETURN Qp::post_recv_slowly(ibv_recv_wr& receive) noexcept {
  if (!own_receives_) return dat_error(DAT_INVALID_STATE);
  CompactList list(receive.sg_list, receive.num_sge, UINT64_MAX);
  if (!list.fits) return kTooMany;
  receive.sg_list = list.segments;
  receive.num_sge = static_cast<int>(list.size);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_, &receive, &bad);
  if (error != 0) return point::refused("ibv_post_recv", error);
  posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (in_error_.load(std::memory_order_acquire)) flush();
  // The core holds its lock of this queue: no sink call, no wait for one.
  if (watermarked_.load(std::memory_order_relaxed)) trouble_.post();
  return DAT_SUCCESS;
}

DAT_RETURN Qp::post_rdma_read_to_rmr(WorkId, const DAT_RMR_TRIPLET&, const DAT_RMR_TRIPLET&,
                                     WorkFlags) noexcept {
  // Verbs names the sink of a read by a local key only.
  return dat_error(DAT_MODEL_NOT_SUPPORTED);
}

DAT_RETURN Qp::post_write_immediate(WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                    const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                    WorkFlags flags) noexcept {
  if (adapter_.attributes().extension != DAT_EXTENSION_IB)
    return dat_error(DAT_MODEL_NOT_SUPPORTED);
  ibv_send_wr request;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = immediate;  // as it is: the old provider does not swap it
  request.wr.rdma.remote_addr = remote.virtual_address;
  request.wr.rdma.rkey = remote.rmr_context;
  return post_message(request, id, list, count, flags);
}

DAT_RETURN Qp::post_atomic(ibv_wr_opcode operation, WorkId id, const DAT_LMR_TRIPLET& local,
                           const DAT_RMR_TRIPLET& remote, std::uint64_t first, std::uint64_t second,
                           WorkFlags flags) noexcept {
  if (adapter_.attributes().extension != DAT_EXTENSION_IB)
    return dat_error(DAT_MODEL_NOT_SUPPORTED);
  if (local.segment_length != sizeof(std::uint64_t) ||
      remote.virtual_address % sizeof(std::uint64_t) != 0)
    return dat_error(DAT_INVALID_PARAMETER);
  const DAT_RETURN checked = check(request_regions_, local, memory_.generation(), true);
  if (checked != DAT_SUCCESS) return checked;
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
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

DAT_RETURN Qp::post_fetch_add(WorkId id, const DAT_LMR_TRIPLET& local,
                              const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                              WorkFlags flags) noexcept {
  return post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, id, local, remote, add, 0, flags);
}

DAT_RETURN Qp::post_compare_swap(WorkId id, const DAT_LMR_TRIPLET& local,
                                 const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                                 std::uint64_t swap, WorkFlags flags) noexcept {
  return post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, id, local, remote, compare, swap, flags);
}

// ---- binds -------------------------------------------------------------------------------------

DAT_RETURN Qp::post_bind(WorkId id, const transport::BindRequest& bind, WorkFlags flags,
                         DAT_RMR_CONTEXT* context) noexcept {
  auto& window = static_cast<Window&>(*bind.window);
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  {
    // The ring is made with the first bind, so that QPs without windows do without it.
    const ScopedLock lock(binds_lock_);
    if (binds_.empty()) {
      try {
        binds_.resize(max_binds_);
      } catch (const std::bad_alloc&) {
        return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
      }
    }
  }
  const std::uint64_t wr_id = bind_wr_id(id, flags);
  std::uint32_t key = 0;
  const ScopedLock lock(window.lock());
  if (window.get() == nullptr) return dat_error(DAT_INSUFFICIENT_RESOURCES);
  const DAT_RETURN posted = window.type2() ? post_bind_type2(wr_id, bind, flags, window, &key)
                                           : post_bind_type1(wr_id, bind, flags, window, &key);
  if (posted != DAT_SUCCESS) return posted;
  remember_bind(wr_id, key);
  const bool unbind = bind.range.segment_length == 0;
  *context = unbind ? 0 : key;
  window.posted(bind, *context, *this);
  return DAT_SUCCESS;
}

// A type 2 window is invalidated before it is bound again; later work starts after both.
DAT_RETURN Qp::post_bind_type2(std::uint64_t wr_id, const transport::BindRequest& bind,
                               WorkFlags flags, Window& window, std::uint32_t* key) noexcept {
  const bool unbind = bind.range.segment_length == 0;
  ibv_send_wr invalidate{};
  invalidate.wr_id = unbind ? wr_id : kInternalWork;
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.invalidate_rkey = window.key();
  invalidate.send_flags = unbind ? send_flags(flags) : 0U;
  if (unbind) {
    *key = window.key();
    if (window.bound()) return submit(invalidate);
    return post_nothing(wr_id, flags);
  }

  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = send_flags(flags);
  request.bind_mw.mw = window.get();
  request.bind_mw.rkey = window.next_key();
  request.bind_mw.bind_info = bind_info(bind);
  *key = request.bind_mw.rkey;
  if (window.bound()) {
    invalidate.send_flags |= request.send_flags & IBV_SEND_FENCE;
    invalidate.next = &request;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp_, &invalidate, &bad);
    if (error == 0) return DAT_SUCCESS;
    // Then the window is unbound, and that is all that has happened.
    if (bad == &request) window.posted({&window, nullptr, {}, {}, bind.va_type}, 0, *this);
    return point::refused("ibv_post_send", error);
  }
  return submit(request);
}

// An unbind of what is not bound has a completion, too.
DAT_RETURN Qp::post_nothing(std::uint64_t wr_id, WorkFlags flags) noexcept {
  ibv_send_wr nothing{};
  nothing.wr_id = wr_id;
  nothing.opcode = IBV_WR_RDMA_WRITE;
  nothing.send_flags = send_flags(flags);
  return submit(nothing);
}

DAT_RETURN Qp::post_bind_type1(std::uint64_t wr_id, const transport::BindRequest& bind,
                               WorkFlags flags, Window& window, std::uint32_t* key) noexcept {
  ibv_mw_bind request{};
  request.wr_id = wr_id;
  request.send_flags = send_flags(flags);
  request.bind_info = bind_info(bind);
  if (bind.range.segment_length == 0) {
    *key = window.key();
    if (!window.bound()) return post_nothing(wr_id, flags);
    // Not all drivers take the null that the manual asks for; a length of 0 is what counts.
    request.bind_info.mr = window.bound_to().get();
    request.bind_info.addr = window.bound_to().init().address;
  }
  const int error = ibv_bind_mw(qp_, window.get(), &request);
  if (error != 0) return point::refused("ibv_bind_mw", error);
  *key = window.key();
  return DAT_SUCCESS;
}

// At most max_binds_ are outstanding, so what is overwritten has completed.
void Qp::remember_bind(std::uint64_t wr_id, std::uint32_t key) noexcept {
  const ScopedLock lock(binds_lock_);
  binds_[next_bind_] = {wr_id, key};
  next_bind_ = (next_bind_ + 1) % binds_.size();
}

}  // namespace udapl::verbs
