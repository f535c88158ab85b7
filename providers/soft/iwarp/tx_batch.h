// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The bytes that one connection has built and not yet given to TCP, as a scatter/gather list.
//
// Not thread-safe: the caller holds the connection's transmit lock. Owner: the connection.
// Headers, pads, CRCs and copied payloads live in the batch's own arena; other payloads are
// referenced where the consumer has them. Storage is allocated by the constructor and is recycled
// whenever everything has been sent; a larger arena is there while there is more to send than fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace udapl::iwarp {

// Same layout as struct iovec, so that spans() can be given to sendmsg() as it is (the I/O layer
// asserts that); defined here because this folder includes no system headers.
struct IoSpan {
  const void* data;
  std::size_t size;
};

class TxBatch {
 public:
  // The smallest batch that can hold every FPDU the Sender builds, with markers: where all payload
  // is copied, and where it is referred to.
  static constexpr std::size_t kMinSpans = 4;
  static constexpr std::size_t kMinReferringSpans = 160;
  static constexpr std::size_t kMinArena = 512;
  // What a connection has once it refers to payload: about 125 full-size FPDUs.
  static constexpr std::size_t kReferringSpans = 256;

  // Allocates `max_spans` entries and `arena_bytes` for headers; both are raised to the minimum.
  // Throws std::bad_alloc. The defaults hold about 125 full-size or 90 small FPDUs.
  explicit TxBatch(std::size_t max_spans = kReferringSpans, std::size_t arena_bytes = 8192);
  ~TxBatch();
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;

  // What is to be sent, first byte first. Valid until the next change of the batch.
  std::span<const IoSpan> spans() const noexcept { return {spans_.get() + first_, last_ - first_}; }
  bool empty() const noexcept { return first_ == last_; }
  std::size_t pending_bytes() const noexcept { return static_cast<std::size_t>(appended_ - sent_); }

  // TCP took the first `bytes` of spans(), at any boundary. REQUIRES: bytes <= pending_bytes().
  void consume(std::size_t bytes) noexcept;

  // So many bytes went out beside the batch. REQUIRES: empty().
  void skip(std::size_t bytes) noexcept {
    appended_ += bytes;
    sent_ += bytes;
  }

  // Positions in the outgoing FPDU stream, counted from 0. A message whose last byte was appended
  // when appended() was P has left, and its payload may be reused, once sent() >= P.
  std::uint64_t appended() const noexcept { return appended_; }
  std::uint64_t sent() const noexcept { return sent_; }

  // The first so many pending bytes are not to be lent to the peer: some of them lie in memory that
  // may be taken back from it.
  std::size_t kept() const noexcept {
    return kept_until_ > sent_ ? static_cast<std::size_t>(kept_until_ - sent_) : 0;
  }
  // Whether any pending bytes are in the consumer's memory.
  bool refers() const noexcept { return refers_; }

  // Gives back what enlarge() has taken, if nothing is pending.
  void shrink() noexcept;

  // Forgets everything pending (the connection is gone); positions restart at 0.
  void clear() noexcept;

  // ---- for Sender ---------------------------------------------------------------------------
  std::size_t free_spans() const noexcept { return max_spans_ - last_; }
  std::size_t free_arena() const noexcept { return arena_size_ - arena_used_; }
  std::size_t max_spans() const noexcept { return max_spans_; }
  // kReferringSpans from now on; what is pending is kept. False: there are as many, or out of
  // memory.
  bool more_spans() noexcept;
  // A new arena of `bytes` for what is appended from now on; what is pending stays where it is.
  // False: out of memory, nothing has changed. REQUIRES: can_enlarge().
  bool enlarge(std::size_t bytes) noexcept;
  bool can_enlarge() const noexcept { return large_ == nullptr || empty(); }
  // The free part of the arena; write there, then append_arena() what was written.
  std::byte* arena_end() noexcept { return arena_ + arena_used_; }
  void append_arena(std::size_t bytes) noexcept;
  void append_payload(const void* data, std::size_t bytes) noexcept;
  void keep() noexcept { kept_until_ = appended_; }  // see kept(): what was appended so far

 private:
  void give_back() noexcept;

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
