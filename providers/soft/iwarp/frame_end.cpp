// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/frame_end.h"

#include "providers/soft/iwarp/wire.h"

#include <algorithm>

namespace udapl::iwarp {

// The length fields are read from the batch. Each is contiguous there, because FPDUs and markers
// begin at multiples of four bytes.
void FrameEnd::advance(const TxBatch& batch, std::size_t bytes) noexcept {
  const std::uint64_t until = batch.sent() + bytes;
  std::uint64_t frame = std::max(at_, batch.sent());
  std::uint64_t begin = batch.sent();  // of the span
  for (const IoSpan& span : batch.spans()) {
    const std::uint64_t end = begin + span.size;
    while (frame < until && length_at(frame) < end) {
      const std::uint64_t offset = length_at(frame) - begin;
      frame = end_of(frame, load16(static_cast<const std::byte*>(span.data) + offset));
    }
    if (frame >= until) break;
    begin = end;
  }
  at_ = frame;
}

std::uint64_t FrameEnd::length_at(std::uint64_t start) const noexcept {
  return markers_ && start % kMarkerSpacing == 0 ? start + kMarkerSize : start;
}

std::uint64_t FrameEnd::end_of(std::uint64_t start, std::uint16_t length) const noexcept {
  std::size_t left = fpdu_size(length);
  if (!markers_) return start + left;
  std::uint64_t end = start;
  while (left != 0) {
    if (end % kMarkerSpacing == 0) end += kMarkerSize;
    const std::size_t run = std::min<std::size_t>(left, kMarkerSpacing - end % kMarkerSpacing);
    end += run;
    left -= run;
  }
  return end;
}

}  // namespace udapl::iwarp
