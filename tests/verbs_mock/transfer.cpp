// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Executes work requests: moves data between QPs of this process, with the checks of an RDMA
// device.
#include "device.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace verbs_mock {

namespace {

using Bytes = std::vector<std::byte>;

[[nodiscard]] Qp* peer_of(const Qp& qp) {
  const auto found = device().qps.find(qp.attr.dest_qp_num);
  return found == device().qps.end() ? nullptr : found->second;
}

[[nodiscard]] bool receives(const Qp& qp) { return qp.now == IBV_QPS_RTR || qp.now == IBV_QPS_RTS; }

[[nodiscard]] std::uint64_t total(const std::vector<ibv_sge>& segments) {
  std::uint64_t bytes = 0;
  for (const ibv_sge& segment : segments) bytes += segment.length;
  return bytes;
}

// Returns nullopt if the key of a segment does not allow the access.
[[nodiscard]] std::optional<Bytes> gather(const Qp& qp, const Request& request) {
  if ((request.wr.send_flags & IBV_SEND_INLINE) != 0) return request.data;
  Bytes bytes;
  bytes.reserve(total(request.segments));
  for (const ibv_sge& segment : request.segments) {
    if (segment.length == 0) continue;
    const std::byte* const from = translate(qp, segment.lkey, segment.addr, segment.length, 0);
    if (from == nullptr) return std::nullopt;
    bytes.insert(bytes.end(), from, from + segment.length);
  }
  return bytes;
}

// Returns false if a segment is not writable. As with devices, only the part that `bytes` reach
// counts. REQUIRES: the segments have room for `bytes`.
[[nodiscard]] bool scatter(const Qp& qp, const std::vector<ibv_sge>& segments, const Bytes& bytes) {
  std::size_t done = 0;
  for (const ibv_sge& segment : segments) {
    const std::size_t part = std::min<std::size_t>(segment.length, bytes.size() - done);
    if (part == 0) continue;
    std::byte* const to = translate(qp, segment.lkey, segment.addr, part, IBV_ACCESS_LOCAL_WRITE);
    if (to == nullptr) return false;
    std::memcpy(to, bytes.data() + done, part);
    done += part;
  }
  return true;
}

[[nodiscard]] ibv_wc receive_completion(const Qp& qp, std::uint64_t id, ibv_wc_status status) {
  ibv_wc completion{};
  completion.wr_id = id;
  completion.status = status;
  completion.opcode = IBV_WC_RECV;
  completion.qp_num = qp.qp_num;
  completion.src_qp = qp.attr.dest_qp_num;
  return completion;
}

// Takes the next receive of `qp`; nullopt: none.
[[nodiscard]] std::optional<Receive> next_receive(Qp& qp) {
  auto* const srq = static_cast<Srq*>(qp.srq);
  std::deque<Receive>& queue = srq != nullptr ? srq->receives : qp.receives;
  if (queue.empty()) return std::nullopt;
  std::optional<Receive> receive(std::move(queue.front()));
  queue.pop_front();
  if (srq != nullptr && queue.size() < srq->limit) {
    srq->limit = 0;
    raise_event(qp.context, IBV_EVENT_SRQ_LIMIT_REACHED, nullptr, nullptr, srq);
  }
  return receive;
}

// Breaks a responder that cannot continue, with an asynchronous event.
ibv_wc_status responder_fault(Qp& responder, ibv_wc_status for_requester) {
  raise_event(responder.context, IBV_EVENT_QP_ACCESS_ERR, &responder, nullptr, nullptr);
  break_qp(responder);
  return for_requester;
}

[[nodiscard]] bool is_invalidation(ibv_wr_opcode opcode) { return opcode == IBV_WR_SEND_WITH_INV; }

[[nodiscard]] bool has_immediate(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// The window with this key that requests on `qp` may use; null: none.
[[nodiscard]] Mw* window_of(const Qp& qp, std::uint32_t key) {
  const auto found = device().keys.find(key);
  if (found == device().keys.end()) return nullptr;
  Mw* const window = found->second->window;
  const bool fits = window != nullptr && window->type == IBV_MW_TYPE_2 &&
                    found->second->pd == static_cast<const Pd*>(qp.pd)->root() &&
                    found->second->qp_num == qp.qp_num;
  return fits ? window : nullptr;
}

// The last step of a message that consumes a receive and has the data `bytes`.
ibv_wc_status deliver(Qp& to, const Receive& receive, const Request& request, const Bytes& bytes,
                      std::uint32_t length) {
  Cq& cq = Cq::of(to.recv_cq);
  const auto fault = [&](ibv_wc_status here, ibv_wc_status there) {
    complete(to, cq, receive_completion(to, receive.id, here), false);
    break_qp(to);
    return there;
  };
  if (bytes.size() > total(receive.segments))
    return fault(IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  if (!scatter(to, receive.segments, bytes)) return fault(IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
  ibv_wc completion = receive_completion(to, receive.id, IBV_WC_SUCCESS);
  completion.byte_len = length;
  if (is_invalidation(request.wr.opcode)) {
    Mw* const window = window_of(to, request.wr.invalidate_rkey);
    if (window == nullptr) return fault(IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
    unbind(*window);
    completion.wc_flags = IBV_WC_WITH_INV;
    completion.invalidated_rkey = request.wr.invalidate_rkey;
  } else if (has_immediate(request.wr.opcode)) {
    completion.wc_flags = IBV_WC_WITH_IMM;
    completion.imm_data = request.wr.imm_data;
    if (request.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
      completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  }
  complete(to, cq, completion, (request.wr.send_flags & IBV_SEND_SOLICITED) != 0);
  return IBV_WC_SUCCESS;
}

using Outcome = std::optional<ibv_wc_status>;  // nullopt: the request must wait

Outcome send(Qp& from, Qp& to, const Request& request) {
  const std::optional<Bytes> bytes = gather(from, request);
  if (!bytes) return IBV_WC_LOC_PROT_ERR;
  const std::optional<Receive> receive = next_receive(to);
  if (!receive) return from.attr.rnr_retry == 7 ? Outcome() : Outcome(IBV_WC_RNR_RETRY_EXC_ERR);
  return deliver(to, *receive, request, *bytes, static_cast<std::uint32_t>(bytes->size()));
}

// Memory of the responder; null: access refused.
[[nodiscard]] std::byte* remote(const Qp& to, std::uint32_t key, std::uint64_t address,
                                std::uint64_t length, int access) {
  if ((static_cast<int>(to.attr.qp_access_flags) & access) != access) return nullptr;
  return translate(to, key, address, length, access);
}

Outcome rdma_write(Qp& from, Qp& to, const Request& request) {
  const std::optional<Bytes> bytes = gather(from, request);
  if (!bytes) return IBV_WC_LOC_PROT_ERR;
  const auto& where = request.wr.wr.rdma;
  std::byte* place = nullptr;
  if (!bytes->empty()) {
    place = remote(to, where.rkey, where.remote_addr, bytes->size(), IBV_ACCESS_REMOTE_WRITE);
    if (place == nullptr) return responder_fault(to, IBV_WC_REM_ACCESS_ERR);
  }
  std::optional<Receive> receive;
  if (has_immediate(request.wr.opcode)) {
    receive = next_receive(to);
    if (!receive) return from.attr.rnr_retry == 7 ? Outcome() : Outcome(IBV_WC_RNR_RETRY_EXC_ERR);
  }
  if (!bytes->empty()) std::memcpy(place, bytes->data(), bytes->size());
  if (!receive) return IBV_WC_SUCCESS;
  return deliver(to, *receive, request, {}, static_cast<std::uint32_t>(bytes->size()));
}

// Without a depth of its own, a QP waits for ever with a Read or an atomic, as that of rdma_rxe.
[[nodiscard]] bool never_sent(const Qp& from) { return from.attr.max_rd_atomic == 0; }
[[nodiscard]] bool is_served(const Qp& to) { return to.attr.max_dest_rd_atomic != 0; }

Outcome rdma_read(Qp& from, Qp& to, const Request& request) {
  if (never_sent(from)) return std::nullopt;
  if (!is_served(to)) return responder_fault(to, IBV_WC_REM_INV_REQ_ERR);
  const std::uint64_t length = total(request.segments);
  Bytes bytes(length);
  if (length != 0) {
    const auto& where = request.wr.wr.rdma;
    const std::byte* const place =
        remote(to, where.rkey, where.remote_addr, length, IBV_ACCESS_REMOTE_READ);
    if (place == nullptr) return responder_fault(to, IBV_WC_REM_ACCESS_ERR);
    std::memcpy(bytes.data(), place, length);
  }
  return scatter(from, request.segments, bytes) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

Outcome atomic(Qp& from, Qp& to, const Request& request) {
  if (never_sent(from)) return std::nullopt;
  if (!is_served(to) || total(request.segments) != sizeof(std::uint64_t))
    return responder_fault(to, IBV_WC_REM_INV_REQ_ERR);
  const auto& where = request.wr.wr.atomic;
  if (where.remote_addr % sizeof(std::uint64_t) != 0)
    return responder_fault(to, IBV_WC_REM_INV_REQ_ERR);
  std::byte* const place =
      remote(to, where.rkey, where.remote_addr, sizeof(std::uint64_t), IBV_ACCESS_REMOTE_ATOMIC);
  if (place == nullptr) return responder_fault(to, IBV_WC_REM_ACCESS_ERR);
  Bytes old(sizeof(std::uint64_t));
  std::uint64_t value = 0;
  std::memcpy(&value, place, sizeof value);
  std::memcpy(old.data(), &value, sizeof value);
  if (!scatter(from, request.segments, old)) return IBV_WC_LOC_PROT_ERR;
  if (request.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    value += where.compare_add;
  else if (value == where.compare_add)
    value = where.swap;
  std::memcpy(place, &value, sizeof value);
  return IBV_WC_SUCCESS;
}

ibv_wc_status bind_window(Qp& qp, const Request& request) {
  Mw* const window = find_window(request.window_key);
  if (window == nullptr) return IBV_WC_MW_BIND_ERR;
  const bool second = window->type == IBV_MW_TYPE_2;
  const std::uint32_t key = request.wr.bind_mw.rkey;
  // A window keeps the upper part of its key. One of type 2 must be invalid, and is not unbound by
  // a bind.
  if ((key >> 8) != (request.window_key >> 8) ||
      (second && (window->bound != nullptr || request.wr.bind_mw.bind_info.length == 0)))
    return IBV_WC_MW_BIND_ERR;
  return bind(*window, request.wr.bind_mw.bind_info, key, second ? qp.qp_num : 0) == 0
             ? IBV_WC_SUCCESS
             : IBV_WC_MW_BIND_ERR;
}

ibv_wc_status invalidate(Qp& qp, const Request& request) {
  Mw* const window = window_of(qp, request.wr.invalidate_rkey);
  if (window == nullptr) return IBV_WC_LOC_QP_OP_ERR;
  unbind(*window);
  return IBV_WC_SUCCESS;
}

Outcome execute(Qp& qp, const Request& request) {
  if (request.wr.opcode == IBV_WR_BIND_MW) return bind_window(qp, request);
  if (request.wr.opcode == IBV_WR_LOCAL_INV) return invalidate(qp, request);
  Qp* const peer = peer_of(qp);
  if (peer == nullptr || !receives(*peer)) return std::nullopt;
  switch (request.wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      return send(qp, *peer, request);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return rdma_write(qp, *peer, request);
    case IBV_WR_RDMA_READ:
      return rdma_read(qp, *peer, request);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return atomic(qp, *peer, request);
    default:
      return IBV_WC_LOC_QP_OP_ERR;
  }
}

[[nodiscard]] ibv_wc_opcode completion_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    default:
      return IBV_WC_SEND;
  }
}

void finish(Qp& qp, ibv_wc_status status) {
  const Request request = std::move(qp.requests.front());
  qp.requests.pop_front();
  if (status == IBV_WC_SUCCESS && !qp.all_signalled &&
      (request.wr.send_flags & IBV_SEND_SIGNALED) == 0)
    return;
  ibv_wc completion{};
  completion.wr_id = request.wr.wr_id;
  completion.status = status;
  completion.qp_num = qp.qp_num;
  // Devices leave the operation of a failed request undefined.
  completion.opcode = status == IBV_WC_SUCCESS ? completion_of(request.wr.opcode)
                                               : static_cast<ibv_wc_opcode>(0x55);
  completion.byte_len = static_cast<std::uint32_t>(total(request.segments));
  complete(qp, Cq::of(qp.send_cq), completion, false);
}

}  // namespace

void break_qp(Qp& qp) {
  const bool broke = qp.now != IBV_QPS_ERR || !qp.drained;
  qp.now = IBV_QPS_ERR;
  while (!qp.requests.empty()) finish(qp, IBV_WC_WR_FLUSH_ERR);
  while (!qp.receives.empty()) {
    const std::uint64_t id = qp.receives.front().id;
    qp.receives.pop_front();
    complete(qp, Cq::of(qp.recv_cq), receive_completion(qp, id, IBV_WC_WR_FLUSH_ERR), false);
  }
  if (broke && qp.srq != nullptr)
    raise_event(qp.context, IBV_EVENT_QP_LAST_WQE_REACHED, &qp, nullptr, nullptr);
  qp.drained = true;
}

void advance(Qp& qp) {
  while (qp.now == IBV_QPS_RTS && !qp.requests.empty()) {
    const Outcome outcome = execute(qp, qp.requests.front());
    if (!outcome) return;
    finish(qp, *outcome);
    if (*outcome != IBV_WC_SUCCESS) break_qp(qp);
  }
}

void wake_senders(const Qp& receiver) {
  Qp* const peer = peer_of(receiver);
  if (peer != nullptr && peer->attr.dest_qp_num == receiver.qp_num) advance(*peer);
}

}  // namespace verbs_mock
