// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/types.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

namespace udapl::dapl {

class Ep;

// What a posted work request was. Its address is the WorkId given to the transport.
struct Cookie {
  DAT_DTO_COOKIE user;
  Ep* ep;                // an SRQ buffer: null, the completion names the EP
  void* rmr;             // a bind: the Rmr
  std::uint32_t length;  // bytes posted
  DAT_DTOS operation;
  bool suppressed;    // success makes no event; the completion only frees slots
  bool ib_extension;  // reported as an IB extension event
};

// The cookies of one direction of an EP: requests or receives complete in posting order, so a ring
// does. Sized at create, never allocates after. Thread-safe for one poster (holds the EP's send or
// receive lock) and one reaper (holds the EVD's poll lock). Owned by an Ep.
class CookieRing {
 public:
  // Room for `limit` outstanding requests (> 0); the ring is the next power of two.
  explicit CookieRing(std::uint32_t limit)
      : limit_(limit),
        mask_(std::bit_ceil(limit) - 1),
        slots_(std::make_unique<Cookie[]>(mask_ + 1)) {}

  // The next slot, or null when `limit` requests are outstanding. It counts as posted only after
  // commit().
  [[nodiscard]] Cookie* claim() noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    // acquire: pairs with retire(), the reaper is done with the slot before we write it again.
    if (head - tail_.load(std::memory_order_acquire) >= limit_) [[unlikely]]
      return nullptr;
    return &slots_[head & mask_];
  }
  void commit() noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void rollback() noexcept {
    head_.store(head_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

  // Frees `cookie` and all posted before it.
  void retire(const Cookie* cookie) noexcept {
    const auto index = static_cast<std::uint32_t>(cookie - slots_.get());
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    tail_.store(tail + ((index - tail) & mask_) + 1, std::memory_order_release);
  }

  [[nodiscard]] std::uint32_t outstanding() const noexcept {
    return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint32_t posted() const noexcept {
    return head_.load(std::memory_order_relaxed);
  }

 private:
  const std::uint32_t limit_;
  const std::uint32_t mask_;
  const std::unique_ptr<Cookie[]> slots_;
  alignas(64) std::atomic<std::uint32_t> head_{0};  // posted so far
  alignas(64) std::atomic<std::uint32_t> tail_{0};  // retired so far
};

}  // namespace udapl::dapl
