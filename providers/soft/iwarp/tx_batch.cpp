// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/tx_batch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <utility>

namespace udapl::iwarp {

namespace {

// A cache of released arenas, a few of each size (a power of two), which all batches share. So
// steady traffic allocates no memory, and an idle connection holds no large arena.
constexpr std::size_t kSizes = 32;
constexpr std::size_t kSparesOfASize = 4;
using Spares = std::array<std::atomic<std::byte*>, kSparesOfASize>;
constinit std::array<Spares, kSizes> all_spares{};

Spares& spares_of(std::size_t size) noexcept {
  return all_spares[static_cast<std::size_t>(std::countr_zero(size)) % kSizes];
}

std::byte* take_spare(std::size_t size) noexcept {
  for (std::atomic<std::byte*>& spare : spares_of(size)) {
    if (spare.load(std::memory_order_relaxed) == nullptr) continue;
    if (std::byte* const taken = spare.exchange(nullptr, std::memory_order_acquire)) return taken;
  }
  return nullptr;
}

// Returns false if the cache has enough arenas of this size.
bool keep_spare(std::byte* arena, std::size_t size) noexcept {
  for (std::atomic<std::byte*>& spare : spares_of(size)) {
    std::byte* none = nullptr;
    if (spare.compare_exchange_strong(none, arena, std::memory_order_release,
                                      std::memory_order_relaxed))
      return true;
  }
  return false;
}

}  // namespace

TxBatch::TxBatch(std::size_t max_spans, std::size_t arena_bytes)
    // Left uninitialized: pages that are never used are never touched.
    : spans_(std::make_unique_for_overwrite<IoSpan[]>(std::max(max_spans, kMinSpans))),
      small_(std::make_unique_for_overwrite<std::byte[]>(std::max(arena_bytes, kMinArena))),
      max_spans_(std::max(max_spans, kMinSpans)),
      small_size_(std::max(arena_bytes, kMinArena)),
      arena_(small_.get()),
      arena_size_(small_size_) {}

TxBatch::~TxBatch() { release_large(); }

bool TxBatch::more_spans() noexcept {
  if (max_spans_ >= kReferringSpans) return false;
  std::unique_ptr<IoSpan[]> more(new (std::nothrow) IoSpan[kReferringSpans]);
  if (more == nullptr) return false;
  std::copy(spans_.get() + first_, spans_.get() + last_, more.get() + first_);
  spans_ = std::move(more);
  max_spans_ = kReferringSpans;
  return true;
}

bool TxBatch::enlarge(std::size_t bytes) noexcept {
  bytes = std::bit_ceil(bytes);
  std::unique_ptr<std::byte[]> larger(take_spare(bytes));
  if (larger == nullptr) larger.reset(new (std::nothrow) std::byte[bytes]);
  if (larger == nullptr) return false;
  release_large();
  large_ = std::move(larger);
  arena_ = large_.get();
  arena_size_ = bytes;
  arena_used_ = 0;
  return true;
}

void TxBatch::shrink() noexcept {
  if (large_ == nullptr || !empty()) return;
  release_large();
  arena_ = small_.get();
  arena_size_ = small_size_;
}

void TxBatch::release_large() noexcept {
  if (large_ == nullptr) return;
  if (keep_spare(large_.get(), arena_size_))
    large_.release();
  else
    large_.reset();
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
  if (first_ != last_) return;
  first_ = last_ = arena_used_ = 0;
  refers_ = false;
}

void TxBatch::clear() noexcept {
  first_ = last_ = arena_used_ = 0;
  appended_ = sent_ = kept_until_ = 0;
  refers_ = false;
  shrink();
}

void TxBatch::append_arena(std::size_t bytes) noexcept {
  // A trailer and the header behind it are contiguous, so they share one entry.
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
  refers_ = true;
}

}  // namespace udapl::iwarp
