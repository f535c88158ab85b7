// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/types.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

namespace udapl::dapl {

class Ep;

// What a posted work request was. Its address is the WorkId given to the transport.
struct Cookie {
  DAT_DTO_COOKIE user;
  Ep* ep;  // an SRQ buffer: null, the completion names the EP
  union {
    std::uint32_t length;  // bytes posted
    void* rmr;             // a bind: the Rmr
  };
  DAT_DTOS operation : 8;
  bool suppressed;         // success makes no event; the completion only frees slots
  bool ib_extension;       // reported as an IB extension event
  bool plain;              // of an EP's ring, and success makes an ordinary DTO event
  std::uint32_t position;  // in its ring, counted from the first post ever
};
static_assert(sizeof(Cookie) == 32, "the way from an index to its slot is a shift");

// The cookies of one direction of an EP: requests or receives complete in posting order, so a ring
// does. Sized at create, posts never allocate. Thread-safe for one poster (holds the EP's send or
// receive lock) and one reaper (holds the EVD's poll lock). Owned by an Ep.
class CookieRing {
 public:
  // Room for `limit` outstanding requests; the ring is the next power of two. Throws bad_alloc.
  explicit CookieRing(std::uint32_t limit)
      : limit_(limit),
        mask_(mask_for(limit)),
        slots_(std::make_unique<Cookie[]>(std::size_t{mask_} + 1)) {}

  // The next slot, or null when `limit` requests are outstanding. It counts as posted only after
  // commit().
  [[nodiscard]] Cookie* claim() noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == end_) [[unlikely]] {
      // acquire: pairs with retire(), the reaper is done with the slot before we write it again.
      end_ = tail_.load(std::memory_order_acquire) + limit_;
      if (head == end_) return nullptr;
    }
    Cookie* const slot = slots_.get() + (head & mask_);
    slot->position = head;
    return slot;
  }
  void commit(const Cookie& claimed) noexcept {
    head_.store(claimed.position + 1, std::memory_order_relaxed);
  }
  void rollback() noexcept {
    head_.store(head_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

  // Frees `cookie` and all posted before it.
  void retire(const Cookie* cookie) noexcept {
    tail_.store(cookie->position + 1, std::memory_order_release);
  }

  // Frees all. REQUIRES: no poster, no reaper, and no completion of this ring is left anywhere.
  void clear() noexcept {
    tail_.store(head_.load(std::memory_order_relaxed), std::memory_order_release);
  }

  // Can the limit become `limit` now? Cookies that are posted stay where they are: up to the
  // ring's size always, beyond it only while nothing is outstanding.
  [[nodiscard]] bool can_resize(std::uint32_t limit) const noexcept {
    const std::uint32_t posted = outstanding();
    return posted == 0 || (limit >= posted && limit <= mask_ + 1);
  }
  // REQUIRES: can_resize(limit); no poster, no reaper. Throws bad_alloc, then nothing has changed.
  void resize(std::uint32_t limit) {
    if (limit > mask_ + 1) {
      const std::uint32_t mask = mask_for(limit);
      slots_ = std::make_unique<Cookie[]>(std::size_t{mask} + 1);
      mask_ = mask;
    }
    limit_ = limit;
    end_ = posted();
  }

  [[nodiscard]] std::uint32_t outstanding() const noexcept {
    return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint32_t posted() const noexcept {
    return head_.load(std::memory_order_relaxed);
  }

 private:
  static std::uint32_t mask_for(std::uint32_t limit) noexcept {
    return std::bit_ceil(std::max(limit, 1U)) - 1;
  }

  std::uint32_t limit_;
  std::uint32_t mask_;
  std::unique_ptr<Cookie[]> slots_;
  // Of the poster: up to here he knows slots to be free, without a look at the reaper's cache line.
  std::uint32_t end_ = 0;
  alignas(64) std::atomic<std::uint32_t> head_{0};  // posted so far
  alignas(64) std::atomic<std::uint32_t> tail_{0};  // retired so far
};

}  // namespace udapl::dapl
