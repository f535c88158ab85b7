// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Cq: the hot path of polling. Included by cq.h.
#include <algorithm>

#include "providers/verbs/cq.h"

namespace udapl::verbs {

[[gnu::always_inline]] inline bool Cq::is_plain(const ibv_wc& work) const noexcept {
  if (work.status != IBV_WC_SUCCESS || (work.wr_id & kBindTag) != 0) [[unlikely]]
    return false;
  return (work.wr_id & kReceiveTag) == 0 ||
         (work.opcode == IBV_WC_RECV && (work.wc_flags & invalidate_flags_) == 0);
}

[[gnu::always_inline]] inline void Cq::convert_plain(const ibv_wc& from,
                                                     transport::Completion& to) noexcept {
  to.id = work_id(from.wr_id);
  to.qp_context = nullptr;  // the caller finds the QP by the id
  to.status = DAT_DTO_SUCCESS;
  to.operation = (from.wr_id & kReceiveTag) != 0 ? DAT_DTO_RECEIVE : DAT_DTO_SEND;
  to.length = from.byte_len;
  to.rmr_context = 0;
  to.immediate = 0;
}

[[gnu::always_inline]] inline int Cq::poll_batch() noexcept {
  polled_ = true;
  return ibv_poll_cq(cq_, kBatch, work_.data());
}

[[gnu::always_inline]] inline int Cq::poll(transport::Completion* out, int max) noexcept {
  polled_ = true;
  if (uses_held_) [[unlikely]]
    return poll_via_held(out, max);
  const int count = ibv_poll_cq(cq_, std::min(max, kBatch), work_.data());
  return count <= 0 ? 0 : convert_batch(count, out);
}

[[gnu::always_inline]] inline bool Cq::take_only(transport::Completion& only) noexcept {
  const ibv_wc& work = work_[0];
  if (!is_plain(work)) [[unlikely]]
    return false;
  if ((work.wr_id & kQuietTag) == 0) [[likely]]
    handed_notification_ = true;
  convert_plain(work, only);
  return true;
}

inline int Cq::convert_batch(int count, transport::Completion* out) noexcept {
  transport::Completion* to = out;
  for (const ibv_wc *from = work_.data(), *end = from + count; from != end; ++from) {
    if (is_plain(*from)) [[likely]] {
      convert_plain(*from, *to++);
    } else if (convert(*from, *to)) {
      ++to;
    }
  }
  if (filters_.load(std::memory_order_relaxed)) [[unlikely]]
    note_notifications(count);
  else
    handed_notification_ = true;
  // If a full batch has no completion to return, more may be queued behind it.
  if (to == out && count == kBatch) [[unlikely]]
    return poll_via_held(out, kBatch);
  return static_cast<int>(to - out);
}

}  // namespace udapl::verbs
