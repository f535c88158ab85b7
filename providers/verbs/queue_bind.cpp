// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Queue: binds of memory windows of both types.
#include "providers/verbs/adapter.h"
#include "providers/verbs/queue.h"
#include "providers/verbs/trace_points.h"

namespace udapl::verbs {

using transport::WorkFlags;
using transport::WorkId;

namespace {

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

DAT_RETURN Queue::post_bind(WorkId id, const transport::BindRequest& bind, WorkFlags flags,
                            DAT_RMR_CONTEXT* context) noexcept {
  auto& window = static_cast<Window&>(*bind.window);
  if ((flags & transport::kQuiet) != 0) request_cq_->expect_quiet();
  if (!binds_.reserve()) return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  const std::uint64_t wr_id = bind_wr_id(id, flags);
  std::uint32_t key = 0;
  const ScopedLock lock(window.lock());
  if (!window.prepare(*this)) return dat_error(DAT_INSUFFICIENT_RESOURCES);
  // Recorded before the post, because another thread may poll its failure before this one
  // continues.
  const std::uint64_t number = memory_.next_post();
  binds_.add(wr_id, number);
  const DAT_RETURN posted = window.type2()
                                ? post_bind_type2(wr_id, bind, flags, window, number, &key)
                                : post_bind_type1(wr_id, bind, flags, window, &key);
  if (posted != DAT_SUCCESS) {
    binds_.remove_last();
    return posted;
  }
  const bool unbind = bind.range.segment_length == 0;
  *context = unbind ? 0 : key;
  window.posted(bind, *context, *this, number);
  return DAT_SUCCESS;
}

// A type 2 window is invalidated before it is bound again; later work starts after both.
DAT_RETURN Queue::post_bind_type2(std::uint64_t wr_id, const transport::BindRequest& bind,
                                  WorkFlags flags, Window& window, std::uint64_t number,
                                  std::uint32_t* key) noexcept {
  const bool unbind = bind.range.segment_length == 0;
  ibv_send_wr invalidate{};
  invalidate.wr_id = unbind ? wr_id : kInvalidation;
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
    // Only the invalidation was posted: the window is now unbound.
    if (bad == &request) window.posted({&window, nullptr, {}, {}, bind.va_type}, 0, *this, number);
    return point::refused("ibv_post_send", error);
  }
  return submit(request);
}

// The unbind of a window that is not bound has a completion as well.
DAT_RETURN Queue::post_nothing(std::uint64_t wr_id, WorkFlags flags) noexcept {
  ibv_send_wr nothing{};
  nothing.wr_id = wr_id;
  nothing.opcode = IBV_WR_RDMA_WRITE;
  nothing.send_flags = send_flags(flags);
  return submit(nothing);
}

DAT_RETURN Queue::post_bind_type1(std::uint64_t wr_id, const transport::BindRequest& bind,
                                  WorkFlags flags, Window& window, std::uint32_t* key) noexcept {
  ibv_mw_bind request{};
  request.wr_id = wr_id;
  request.send_flags = send_flags(flags);
  request.bind_info = bind_info(bind);
  if (bind.range.segment_length == 0) {
    *key = window.key();
    if (!window.bound()) return post_nothing(wr_id, flags);
    // Not all drivers accept the null Mr that the manual requires; only the length of 0 matters.
    request.bind_info.mr = window.bound_to().get();
    request.bind_info.addr = window.bound_to().init().address;
  }
  const int error = ibv_bind_mw(qp_, window.get(), &request);
  if (error != 0) return point::refused("ibv_bind_mw", error);
  *key = window.key();
  return DAT_SUCCESS;
}

}  // namespace udapl::verbs
