// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The data transfers of the fake QP.
#include "tests/fake_transport/qp.h"

#include <dat/dat_ib_extensions.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace udapl::fake {

namespace {

Cq& fake(transport::Cq* cq) { return static_cast<Cq&>(*cq); }

std::uint64_t total(const std::vector<DAT_LMR_TRIPLET>& segments) {
  std::uint64_t sum = 0;
  for (const DAT_LMR_TRIPLET& segment : segments) sum += segment.segment_length;
  return sum;
}

std::vector<std::byte> gather(const std::vector<DAT_LMR_TRIPLET>& segments) {
  std::vector<std::byte> data;
  for (const DAT_LMR_TRIPLET& segment : segments) {
    if (segment.segment_length == 0) continue;
    const std::byte* const from = MemoryTable::instance().local(segment);
    data.insert(data.end(), from, from + segment.segment_length);
  }
  return data;
}

void scatter(const std::byte* from, std::size_t length,
             const std::vector<DAT_LMR_TRIPLET>& segments) {
  for (const DAT_LMR_TRIPLET& segment : segments) {
    const std::size_t part = std::min<std::size_t>(length, segment.segment_length);
    if (part == 0) continue;
    std::memcpy(MemoryTable::instance().local(segment), from, part);
    from += part;
    length -= part;
  }
}

std::vector<DAT_LMR_TRIPLET> list(const DAT_LMR_TRIPLET* segments, DAT_COUNT count) {
  return count == 0 ? std::vector<DAT_LMR_TRIPLET>()
                    : std::vector<DAT_LMR_TRIPLET>(segments, segments + count);
}

}  // namespace

// ---- posts -------------------------------------------------------------------------------------

DAT_RETURN Qp::post(Work work, unsigned local_privilege) noexcept {
  if (refuse_posts) return dat_error(DAT_INSUFFICIENT_RESOURCES);
  const std::scoped_lock lock(world());
  const DAT_RETURN code =
      MemoryTable::instance().check(work.local.data(), static_cast<DAT_COUNT>(work.local.size()),
                                    static_cast<Pd*>(init_.pd), local_privilege);
  if (code != DAT_SUCCESS) return code;
  if (state_ == State::kError) {
    complete_locked(work, DAT_DTO_ERR_FLUSHED);
    return DAT_SUCCESS;
  }
  if (static_cast<int>(requests_.size()) >= init_.max_request)
    return dat_error(DAT_INSUFFICIENT_RESOURCES);
  requests_.push_back(std::move(work));
  pump_locked();
  return DAT_SUCCESS;
}

DAT_RETURN Qp::post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                         transport::WorkFlags flags) noexcept {
  if (refuse_posts) return dat_error(DAT_INSUFFICIENT_RESOURCES);
  const std::scoped_lock lock(world());
  const DAT_RETURN code = MemoryTable::instance().check(segments, count, static_cast<Pd*>(init_.pd),
                                                        DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  if (code != DAT_SUCCESS) return code;
  const Buffer buffer{id, list(segments, count), (flags & transport::kQuiet) != 0};
  if (state_ == State::kError) {
    complete_buffer_locked(buffer, DAT_DTO_ERR_FLUSHED, 0, DAT_DTO_RECEIVE, false);
    return DAT_SUCCESS;
  }
  if (static_cast<int>(buffers_.size()) >= init_.max_recv)
    return dat_error(DAT_INSUFFICIENT_RESOURCES);
  buffers_.push_back(buffer);
  check_watermarks_locked();
  return DAT_SUCCESS;
}

DAT_RETURN Qp::post_send(transport::WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                         transport::WorkFlags flags) noexcept {
  return post({Work::Kind::kSend, DAT_DTO_SEND, id, flags, list(segments, count)},
              DAT_MEM_PRIV_LOCAL_READ_FLAG);
}

DAT_RETURN Qp::post_send_invalidate(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                                    DAT_COUNT count, DAT_RMR_CONTEXT context,
                                    transport::WorkFlags flags) noexcept {
  Work work{Work::Kind::kSend, DAT_DTO_SEND, id, flags, list(segments, count)};
  work.invalidate = true;
  work.invalidated = context;
  return post(std::move(work), DAT_MEM_PRIV_LOCAL_READ_FLAG);
}

DAT_RETURN Qp::post_rdma_write(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                               DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
                               transport::WorkFlags flags) noexcept {
  return post({Work::Kind::kWrite, DAT_DTO_RDMA_WRITE, id, flags, list(segments, count), remote},
              DAT_MEM_PRIV_LOCAL_READ_FLAG);
}

DAT_RETURN Qp::post_rdma_read(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                              DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
                              transport::WorkFlags flags) noexcept {
  return post({Work::Kind::kRead, DAT_DTO_RDMA_READ, id, flags, list(segments, count), remote},
              DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

DAT_RETURN Qp::post_rdma_read_to_rmr(transport::WorkId id, const DAT_RMR_TRIPLET& sink,
                                     const DAT_RMR_TRIPLET& remote,
                                     transport::WorkFlags flags) noexcept {
  return post({Work::Kind::kReadToRmr, DAT_DTO_RDMA_READ, id, flags, {}, remote, sink}, 0);
}

DAT_RETURN Qp::post_bind(transport::WorkId id, const transport::BindRequest& request,
                         transport::WorkFlags flags, DAT_RMR_CONTEXT* context) noexcept {
  Work work{Work::Kind::kBind, DAT_DTO_BIND_MW, id, flags, {}};
  work.bind = request;
  const DAT_RETURN code = post(std::move(work), 0);
  const std::scoped_lock lock(world());
  *context = static_cast<Window*>(request.window)->context;
  return code;
}

DAT_RETURN Qp::post_write_immediate(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                                    DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
                                    std::uint32_t immediate, transport::WorkFlags flags) noexcept {
  Work work{Work::Kind::kWrite,
            static_cast<DAT_DTOS>(DAT_IB_DTO_RDMA_WRITE_IMMED),
            id,
            flags,
            list(segments, count),
            remote};
  work.has_immediate = true;
  work.immediate = immediate;
  return post(std::move(work), DAT_MEM_PRIV_LOCAL_READ_FLAG);
}

DAT_RETURN Qp::post_fetch_add(transport::WorkId id, const DAT_LMR_TRIPLET& local,
                              const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                              transport::WorkFlags flags) noexcept {
  Work work{Work::Kind::kFetchAdd,
            static_cast<DAT_DTOS>(DAT_IB_DTO_FETCH_ADD),
            id,
            flags,
            {local},
            remote};
  work.operands[0] = add;
  return post(std::move(work), DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

DAT_RETURN Qp::post_compare_swap(transport::WorkId id, const DAT_LMR_TRIPLET& local,
                                 const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                                 std::uint64_t swap, transport::WorkFlags flags) noexcept {
  Work work{Work::Kind::kCompareSwap,
            static_cast<DAT_DTOS>(DAT_IB_DTO_CMP_SWAP),
            id,
            flags,
            {local},
            remote};
  work.operands[0] = compare;
  work.operands[1] = swap;
  return post(std::move(work), DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

// ---- execution ---------------------------------------------------------------------------------

void Qp::pump_locked() {
  while (!held_ && !requests_.empty() && (state_ == State::kReady || state_ == State::kDraining)) {
    const Work work = std::move(requests_.front());
    requests_.pop_front();
    const DAT_DTO_COMPLETION_STATUS status = execute_locked(work);
    complete_locked(work, status);
    if (status == DAT_DTO_SUCCESS) continue;
    const auto broken = [](transport::ConnectionSink& sink) {
      sink.on_broken(transport::BreakReason::kRemoteFault);
    };
    end_both_locked(broken, broken);
    return;
  }
  finish_drain_locked();
}

DAT_DTO_COMPLETION_STATUS Qp::execute_locked(const Work& work) {
  if (work.kind == Work::Kind::kBind) {
    auto& window = static_cast<Window&>(*work.bind.window);
    MemoryTable::instance().bind(window, work.bind, *this);
    return DAT_DTO_SUCCESS;
  }
  if (peer_ == nullptr) return loopback_ ? DAT_DTO_SUCCESS : DAT_DTO_ERR_TRANSPORT;
  return work.kind == Work::Kind::kSend ? send_locked(work) : rdma_locked(work);
}

DAT_DTO_COMPLETION_STATUS Qp::send_locked(const Work& work) {
  if (work.invalidate) {
    Window* const window = MemoryTable::instance().find_window(work.invalidated);
    if (window == nullptr || window->qp != peer_) return DAT_DTO_ERR_REMOTE_ACCESS;
    MemoryTable::instance().unbind(*window);
  }
  return peer_->receive_locked(gather(work.local), work);
}

DAT_DTO_COMPLETION_STATUS Qp::rdma_locked(const Work& work) {
  MemoryTable& memory = MemoryTable::instance();
  const auto& peer_pd = static_cast<Pd&>(*peer_->init_.pd);
  switch (work.kind) {
    case Work::Kind::kWrite: {
      const std::vector<std::byte> data = gather(work.local);
      std::byte* const to =
          memory.remote(work.remote, data.size(), peer_pd, *peer_, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
      if (!data.empty() && to == nullptr) return DAT_DTO_ERR_REMOTE_ACCESS;
      if (!data.empty()) std::memcpy(to, data.data(), data.size());
      return work.has_immediate ? peer_->receive_locked({}, work) : DAT_DTO_SUCCESS;
    }
    case Work::Kind::kRead:
    case Work::Kind::kReadToRmr: {
      const std::uint64_t length = work.remote.segment_length;
      if (length == 0) return DAT_DTO_SUCCESS;
      const std::byte* const from =
          memory.remote(work.remote, length, peer_pd, *peer_, DAT_MEM_PRIV_REMOTE_READ_FLAG);
      if (from == nullptr) return DAT_DTO_ERR_REMOTE_ACCESS;
      if (work.kind == Work::Kind::kRead) {
        scatter(from, length, work.local);
        return DAT_DTO_SUCCESS;
      }
      std::byte* const to = memory.remote(work.sink, length, static_cast<Pd&>(*init_.pd), *this,
                                          DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
      if (to == nullptr) return DAT_DTO_ERR_LOCAL_PROTECTION;
      std::memmove(to, from, length);
      return DAT_DTO_SUCCESS;
    }
    default: {
      std::byte* const at = memory.remote(work.remote, sizeof(std::uint64_t), peer_pd, *peer_,
                                          DAT_IB_MEM_PRIV_REMOTE_ATOMIC);
      if (at == nullptr) return DAT_DTO_ERR_REMOTE_ACCESS;
      std::uint64_t old = 0;
      std::memcpy(&old, at, sizeof old);
      std::uint64_t now = old + work.operands[0];
      if (work.kind == Work::Kind::kCompareSwap)
        now = old == work.operands[0] ? work.operands[1] : old;
      std::memcpy(at, &now, sizeof now);
      scatter(reinterpret_cast<const std::byte*>(&old), sizeof old, work.local);
      return DAT_DTO_SUCCESS;
    }
  }
}

DAT_DTO_COMPLETION_STATUS Qp::receive_locked(const std::vector<std::byte>& message,
                                             const Work& work) {
  Buffer buffer{};
  if (!take_buffer_locked(&buffer)) return DAT_DTO_ERR_RECEIVER_NOT_READY;
  const bool solicited = (work.flags & transport::kSolicited) != 0;
  if (total(buffer.segments) < message.size()) {
    complete_buffer_locked(buffer, DAT_DTO_ERR_LOCAL_LENGTH, 0, DAT_DTO_RECEIVE, solicited);
    return DAT_DTO_ERR_REMOTE_RESPONDER;
  }
  scatter(message.data(), message.size(), buffer.segments);
  transport::Completion completion{};
  completion.id = buffer.id;
  completion.qp_context = init_.context;
  completion.status = DAT_DTO_SUCCESS;
  completion.operation = DAT_DTO_RECEIVE;
  completion.length = static_cast<std::uint32_t>(message.size());
  if (work.invalidate) {
    completion.operation = DAT_DTO_RECEIVE_WITH_INVALIDATE;
    completion.rmr_context = work.invalidated;
  }
  if (work.has_immediate) {
    completion.operation = static_cast<DAT_DTOS>(DAT_IB_DTO_RECV_IMMED);
    completion.length = static_cast<std::uint32_t>(total(work.local));
    completion.immediate = work.immediate;
  }
  fake(init_.recv_cq)
      .push_locked(completion, !buffer.quiet && (solicited || !init_.solicited_only));
  return DAT_DTO_SUCCESS;
}

bool Qp::take_buffer_locked(Buffer* buffer) {
  if (init_.srq != nullptr) return static_cast<Srq*>(init_.srq)->take_locked(buffer);
  if (buffers_.empty()) return false;
  *buffer = std::move(buffers_.front());
  buffers_.pop_front();
  return true;
}

void Qp::complete_locked(const Work& work, DAT_DTO_COMPLETION_STATUS status) {
  const bool success = status == DAT_DTO_SUCCESS;
  if (success && (work.flags & transport::kSignalled) == 0) return;
  transport::Completion completion{};
  completion.id = work.id;
  completion.qp_context = init_.context;
  completion.status = status;
  completion.operation = work.operation;
  if (success)
    completion.length = work.operation == DAT_DTO_RDMA_READ
                            ? work.remote.segment_length
                            : static_cast<std::uint32_t>(total(work.local));
  const bool notify = !success || (work.flags & transport::kQuiet) == 0;
  fake(init_.request_cq).push_locked(completion, notify);
}

void Qp::complete_buffer_locked(const Buffer& buffer, DAT_DTO_COMPLETION_STATUS status,
                                std::uint32_t length, DAT_DTOS operation, bool solicited) {
  transport::Completion completion{};
  completion.id = buffer.id;
  completion.qp_context = init_.context;
  completion.status = status;
  completion.operation = operation;
  completion.length = length;
  const bool notify =
      status != DAT_DTO_SUCCESS || (!buffer.quiet && (solicited || !init_.solicited_only));
  fake(init_.recv_cq).push_locked(completion, notify);
}

void Qp::flush_locked() {
  while (!requests_.empty()) {
    complete_locked(requests_.front(), DAT_DTO_ERR_FLUSHED);
    requests_.pop_front();
  }
  while (!buffers_.empty()) {
    complete_buffer_locked(buffers_.front(), DAT_DTO_ERR_FLUSHED, 0, DAT_DTO_RECEIVE, false);
    buffers_.pop_front();
  }
}

}  // namespace udapl::fake
