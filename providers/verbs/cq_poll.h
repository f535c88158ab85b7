// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Cq: polling, the hot path. Included by cq.h.
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
  to.qp_context = nullptr;  // the id is to tell
  to.status = DAT_DTO_SUCCESS;
  to.operation = (from.wr_id & kReceiveTag) != 0 ? DAT_DTO_RECEIVE : DAT_DTO_SEND;
  to.length = from.byte_len;
  to.rmr_context = 0;
  to.immediate = 0;
}

inline int Cq::hand_out(int fetched, transport::Completion* out) noexcept {
  transport::Completion* to = out;
  for (const ibv_wc *from = work_.data(), *end = from + fetched; from != end; ++from) {
    if (is_plain(*from)) [[likely]] {
      convert_plain(*from, *to++);
    } else if (convert(*from, *to)) {
      ++to;
    }
  }
  return static_cast<int>(to - out);
}

}  // namespace udapl::verbs
