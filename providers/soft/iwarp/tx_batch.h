// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The bytes that one connection has built and not yet sent, as a scatter/gather list.
//
// Not thread-safe: the caller holds the connection's transmit lock. Owner: the connection.
// Headers, pads, CRCs and copied payload are stored in the batch's own arena; other payload stays
// in the consumer's memory, to which the batch refers. The constructor allocates the arena, which
// is reused when everything has been sent. If more is pending than the arena can hold, a larger
// arena is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/prefetch.h"

namespace udapl::iwarp {

// Same layout as struct iovec, so that spans() can be passed to sendmsg() as is (the I/O layer
// asserts that); defined here because this folder includes no system headers.
struct IoSpan {
  const void* data;
  std::size_t size;
};

class TxBatch {
 public:
  // The minimum sizes that suffice for any FPDU the Sender builds, with markers: kMinSpans if all
  // payload is copied, kMinReferringSpans if payload is referenced.
  static constexpr std::size_t kMinSpans = 8;
  static constexpr std::size_t kMinReferringSpans = 160;
  static constexpr std::size_t kMinArena = 512;
  // The number of entries once the batch references payload: about 125 full-size FPDUs.
  static constexpr std::size_t kReferringSpans = 256;

  // Allocates `max_spans` entries and `arena_bytes` for headers; both are raised to the minimum.
  // Throws std::bad_alloc. The defaults hold about 125 full-size or 90 small FPDUs.
  explicit TxBatch(std::size_t max_spans = kReferringSpans, std::size_t arena_bytes = 8192);
  ~TxBatch();
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;

  // The pending bytes in stream order. Valid until the next change of the batch.
  std::span<const IoSpan> spans() const noexcept { return {spans_.get() + first_, last_ - first_}; }
  bool empty() const noexcept { return first_ == last_; }
  std::size_t pending_bytes() const noexcept { return static_cast<std::size_t>(appended_ - sent_); }

  // Prefetches what appending a few bytes needs.
  void prepare() const noexcept {
    prefetch_for_write(spans_.get());
    prefetch_for_write(small_.get());
    prefetch_for_write(small_.get() + 64);
  }

  // Removes the first `bytes` bytes of spans(), which have been sent; any boundary is allowed.
  // REQUIRES: bytes <= pending_bytes().
  void consume(std::size_t bytes) noexcept;

  // Accounts for bytes that were sent without passing through the batch. REQUIRES: empty().
  void skip(std::size_t bytes) noexcept {
    appended_ += bytes;
    sent_ += bytes;
  }

  // Positions in the outgoing FPDU stream, counted from 0. If appended() was P after the last byte
  // of a message was appended, the message has been sent, and its payload may be reused, once
  // sent() >= P.
  std::uint64_t appended() const noexcept { return appended_; }
  std::uint64_t sent() const noexcept { return sent_; }

  // The number of pending bytes at the front that must not be lent to the peer, because some of
  // them are in memory whose rights may be revoked while the peer reads it.
  std::size_t kept() const noexcept {
    return kept_until_ > sent_ ? static_cast<std::size_t>(kept_until_ - sent_) : 0;
  }
  // Whether any pending bytes are in the consumer's memory.
  bool refers() const noexcept { return refers_; }

  // Releases the larger arena of enlarge(), if nothing is pending.
  void shrink() noexcept;

  // Forgets everything pending (the connection is gone); positions restart at 0.
  void clear() noexcept;

  // ---- for Sender ---------------------------------------------------------------------------
  std::size_t free_spans() const noexcept { return max_spans_ - last_; }
  std::size_t free_arena() const noexcept { return arena_size_ - arena_used_; }
  std::size_t max_spans() const noexcept { return max_spans_; }
  // Raises the number of entries to kReferringSpans; pending entries are kept. Returns false if
  // there are that many already, or if out of memory.
  bool more_spans() noexcept;
  // Switches to a new arena of at least `bytes` bytes; pending bytes stay where they are. Returns
  // false, with nothing changed, if out of memory. REQUIRES: can_enlarge().
  bool enlarge(std::size_t bytes) noexcept;
  bool can_enlarge() const noexcept { return large_ == nullptr || empty(); }
  // The free part of the arena: write there, then call append_arena() with the number of bytes.
  std::byte* arena_end() noexcept { return arena_ + arena_used_; }
  // Skips bytes of the arena, at most kLine - 1, so that the position `front` bytes behind
  // arena_end() is aligned to a cache line. The bytes that are appended next need a new entry.
  static constexpr std::size_t kLine = 64;
  void align_arena(std::size_t front) noexcept {
    const std::uintptr_t next = reinterpret_cast<std::uintptr_t>(arena_end()) + front;
    arena_used_ += (kLine - next % kLine) % kLine;
  }
  void append_arena(std::size_t bytes) noexcept;
  void append_payload(const void* data, std::size_t bytes) noexcept;
  void keep() noexcept { kept_until_ = appended_; }  // see kept(): applies to all pending bytes

 private:
  void release_large() noexcept;

  std::unique_ptr<IoSpan[]> spans_;
  std::unique_ptr<std::byte[]> small_;
  std::unique_ptr<std::byte[]> large_;  // arena_size_ bytes; null: small_ is the arena
  std::size_t max_spans_;
  std::size_t small_size_;
  std::byte* arena_;
  std::size_t arena_size_;
  bool refers_ = false;
  std::size_t first_ = 0;
  std::size_t last_ = 0;
  std::size_t arena_used_ = 0;
  std::uint64_t appended_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t kept_until_ = 0;
};

}  // namespace udapl::iwarp
