// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/work_queue.h"

#include <dat/dat_ib_extensions.h>

#include "common/placement.h"

#include <algorithm>

namespace udapl::soft {

DAT_DTOS operation_of(RequestKind kind) noexcept {
  switch (kind) {
    case RequestKind::kSend:
      return DAT_DTO_SEND;
    case RequestKind::kWrite:
      return DAT_DTO_RDMA_WRITE;
    case RequestKind::kWriteImmediate:
      return static_cast<DAT_DTOS>(DAT_IB_DTO_RDMA_WRITE_IMMED);
    case RequestKind::kRead:
      return DAT_DTO_RDMA_READ;
    case RequestKind::kFetchAdd:
      return static_cast<DAT_DTOS>(DAT_IB_DTO_FETCH_ADD);
    case RequestKind::kCompareSwap:
      return static_cast<DAT_DTOS>(DAT_IB_DTO_CMP_SWAP);
    case RequestKind::kBind:
      break;
  }
  return DAT_DTO_BIND_MW;
}

DAT_RETURN resolve_list(const MrTable& memory, ScopeId pd, std::uint32_t right,
                        std::span<const DAT_LMR_TRIPLET> list, std::uint32_t max, Segment* out,
                        std::uint16_t& count, std::uint64_t& total) noexcept {
  count = 0;
  total = 0;
  for (const DAT_LMR_TRIPLET& segment : list) {
    if (segment.segment_length == 0) continue;
    if (count == max) return dat_error(DAT_INVALID_PARAMETER);
    const DAT_RETURN checked = memory.resolve(segment, pd, right, out[count]);
    if (checked != DAT_SUCCESS) return checked;
    total += segment.segment_length;
    ++count;
  }
  return DAT_SUCCESS;
}

DAT_RETURN resolve_receive(const MrTable& memory, ScopeId pd, std::span<const DAT_LMR_TRIPLET> list,
                           std::uint32_t max, Segment* out, Receive& receive) noexcept {
  receive.segment_count = 0;
  receive.room = 0;
  receive.cut_off = false;
  for (const DAT_LMR_TRIPLET& segment : list) {
    if (segment.segment_length == 0) continue;
    if (receive.segment_count == max) return dat_error(DAT_INVALID_PARAMETER);
    Segment checked;
    const DAT_RETURN code = memory.resolve_receive(segment, pd, checked);
    if (code != DAT_SUCCESS) return code;
    if (receive.cut_off) continue;  // the receive ends in an earlier segment
    receive.cut_off = checked.length != segment.segment_length;
    if (checked.length == 0) continue;
    out[receive.segment_count++] = checked;
    receive.room += checked.length;
  }
  return DAT_SUCCESS;
}

bool Scatter::place(MrTable& memory, KeptPin& kept, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const Segment& segment = segments_[index_];
    const std::size_t n = std::min<std::size_t>(bytes.size(), segment.length - offset_);
    {
      MrTable::Pin pin;
      if (!kept.holds(memory, segment.ref)) {
        pin = memory.pin(segment.ref);
        if (!pin) return false;
      }
      place_bytes(segment.address + offset_, bytes.first(n));
    }
    bytes = bytes.subspan(n);
    offset_ += static_cast<std::uint32_t>(n);
    if (offset_ == segment.length) {
      ++index_;
      offset_ = 0;
    }
  }
  return true;
}

bool Scatter::fill(MrTable& memory, iwarp::Payload& payload) noexcept {
  const Segment& segment = segments_[index_];
  const MrTable::Pin pin = memory.pin(segment.ref);
  if (!pin) return false;
  offset_ += static_cast<std::uint32_t>(
      payload.put({segment.address + offset_, segment.length - offset_}));
  if (offset_ == segment.length) {
    ++index_;
    offset_ = 0;
  }
  return true;
}

}  // namespace udapl::soft
