// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Cq: polling, the hot path. Included by cq.h.
#include <dat/dat_ib_extensions.h>

#include "providers/verbs/cq.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/srq.h"

#include <array>

namespace udapl::verbs {

// The operation of a request that succeeded. What verbs does not tell apart (a write with immediate
// data is a write) the core knows from its cookie.
[[nodiscard]] inline DAT_DTOS request_operation(ibv_wc_opcode opcode) noexcept {
  static_assert(IBV_WC_SEND == 0 && IBV_WC_RDMA_WRITE == 1 && IBV_WC_RDMA_READ == 2 &&
                IBV_WC_COMP_SWAP == 3 && IBV_WC_FETCH_ADD == 4 && IBV_WC_BIND_MW == 5 &&
                IBV_WC_LOCAL_INV == 6);
  static constexpr std::array<DAT_DTOS, 8> kOperations = {
      DAT_DTO_SEND,
      DAT_DTO_RDMA_WRITE,
      DAT_DTO_RDMA_READ,
      static_cast<DAT_DTOS>(DAT_IB_DTO_CMP_SWAP),
      static_cast<DAT_DTOS>(DAT_IB_DTO_FETCH_ADD),
      DAT_DTO_BIND_MW,
      DAT_DTO_BIND_MW,
      DAT_DTO_SEND};
  return kOperations[opcode % kOperations.size()];
}

inline bool Cq::convert(const ibv_wc& from, transport::Completion& to) const noexcept {
  const QpMap::Entry* const entry = qps_.find(from.qp_num);
  if (entry == nullptr) [[unlikely]]
    return false;
  const bool receive = (from.wr_id & kReceiveTag) != 0;
  if (from.status != IBV_WC_SUCCESS || (from.wr_id & kBindTag) != 0 ||
      (receive && (from.opcode != IBV_WC_RECV || (from.wc_flags & invalidate_flags_) != 0)))
      [[unlikely]]
    return convert_rare(from, *entry, to);
  to.id = work_id(from.wr_id);
  to.qp_context = entry->context;
  to.status = DAT_DTO_SUCCESS;
  to.length = from.byte_len;
  to.rmr_context = 0;
  to.immediate = 0;
  if (receive) {
    to.operation = DAT_DTO_RECEIVE;
    entry->qp->on_received();
    if (entry->srq != nullptr) [[unlikely]]
      entry->srq->taken();
  } else {
    to.operation = request_operation(from.opcode);
  }
  return true;
}

inline int Cq::take(transport::Completion* out, int max) noexcept {
  ibv_wc work[kBatch];
  while (true) {
    const int limit = std::min(max, kBatch);
    const int count = ibv_poll_cq(cq_, limit, work);
    int kept = 0;
    for (int i = 0; i < count; ++i) kept += convert(work[i], out[kept]) ? 1 : 0;
    // Only behind a full batch of leftovers there may be more.
    if (kept != 0 || count < limit || limit <= 0) [[likely]]
      return kept;
  }
}

inline int Cq::poll(transport::Completion* out, int max) noexcept {
  const std::uint32_t turn = turn_.load(std::memory_order_relaxed);
  turn_.store(turn + 1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // quiesce() does the rest
  const bool free = mode_.load(std::memory_order_relaxed) == 0;
  const int count = free ? take(out, max) : 0;
  turn_.store(turn + 2, std::memory_order_release);
  if (!free) [[unlikely]]
    return poll_locked(out, max);
  return count;
}

}  // namespace udapl::verbs
