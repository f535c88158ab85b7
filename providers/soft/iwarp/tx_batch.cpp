// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/tx_batch.h"

#include <algorithm>

namespace udapl::iwarp {

TxBatch::TxBatch(std::size_t max_spans, std::size_t arena_bytes)
    : max_spans_(std::max(max_spans, kMinSpans)), arena_size_(std::max(arena_bytes, kMinArena)) {
  // Left uninitialized: pages that are never used are never touched.
  spans_ = std::make_unique_for_overwrite<IoSpan[]>(max_spans_);
  arena_ = std::make_unique_for_overwrite<std::byte[]>(arena_size_);
}

void TxBatch::consume(std::size_t bytes) noexcept {
  sent_ += bytes;
  while (bytes != 0) {
    IoSpan& span = spans_[first_];
    if (bytes < span.size) {
      span.data = static_cast<const std::byte*>(span.data) + bytes;
      span.size -= bytes;
      return;
    }
    bytes -= span.size;
    ++first_;
  }
  if (first_ == last_) first_ = last_ = arena_used_ = 0;
}

void TxBatch::clear() noexcept {
  first_ = last_ = arena_used_ = 0;
  appended_ = sent_ = 0;
}

void TxBatch::append_arena(std::size_t bytes) noexcept {
  // A trailer and the header behind it are neighbours: one entry.
  const std::byte* data = arena_end();
  arena_used_ += bytes;
  appended_ += bytes;
  if (last_ != first_) {
    IoSpan& span = spans_[last_ - 1];
    if (static_cast<const std::byte*>(span.data) + span.size == data) {
      span.size += bytes;
      return;
    }
  }
  spans_[last_++] = {data, bytes};
}

void TxBatch::append_payload(const void* data, std::size_t bytes) noexcept {
  spans_[last_++] = {data, bytes};
  appended_ += bytes;
}

}  // namespace udapl::iwarp
