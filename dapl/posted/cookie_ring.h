// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/prefetch.h"
#include "dapl/transport/types.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace udapl::dapl {

class EpQueues;

// Describes a posted work request. Its address is the WorkId given to the transport.
struct Cookie {
  DAT_DTO_COOKIE user;
  EpQueues* ep;  // the owner of the ring; null for an SRQ buffer, whose completion names the EP
  union {
    std::uint32_t length;  // bytes posted
    void* rmr;             // for a bind: the Rmr
  };
  DAT_DTOS operation : 8;
  bool suppressed;    // success makes no event; the completion only frees slots
  bool ib_extension;  // reported as an IB extension event
  bool plain;         // in an EP's ring, and success makes an ordinary DTO event
  Cookie* next;       // the next slot of the ring
};

// The cookies of one direction of an EP. Requests, and receives, complete in posting order, so a
// ring suffices. Each slot points to the next one, so that claiming a slot, and freeing one, takes
// a load and a store. Sized at creation; posts never allocate. Thread-safe for one poster (which
// holds the lock of the EP's queue) and one reaper (which holds the lock of the CQ). Owned by an
// Ep.
class CookieRing {
 public:
  // Makes room for `limit` outstanding requests of `owner`; up to the next power of two, later
  // resizes need no allocation. Throws std::bad_alloc.
  explicit CookieRing(std::uint32_t limit, EpQueues* owner = nullptr) : owner_(owner) {
    allocate(limit);
  }

  // Like claim(), but does not look for freed slots: returns null unless one is known to be free.
  [[nodiscard]] Cookie* claim_known() noexcept {
    Cookie* const slot = head_.load(std::memory_order_relaxed);
    if (slot == nullptr) __builtin_unreachable();
    return slot == end_ ? nullptr : slot;
  }
  // Returns the next slot, or null if `limit` requests are outstanding. The slot counts as posted
  // only after commit().
  [[nodiscard]] Cookie* claim() noexcept {
    Cookie* const slot = head_.load(std::memory_order_relaxed);
    if (slot == end_) [[unlikely]] {
      look();
      if (slot == end_) return nullptr;
    }
    return slot;
  }
  // Reads which slots the reaper has freed.
  void look() noexcept {
    // acquire: pairs with retire(). The reaper has read the slot before the poster writes it again.
    end_ = advance(tail_.load(std::memory_order_acquire), limit_);
  }
  void commit(const Cookie& claimed) noexcept {
    head_.store(claimed.next, std::memory_order_relaxed);
  }
  // Undoes the latest commit.
  void rollback() noexcept {
    Cookie* const head = head_.load(std::memory_order_relaxed);
    head_.store(advance(head, static_cast<std::uint32_t>(slots().count - 1)),
                std::memory_order_relaxed);
  }

  // The slot of the oldest outstanding request; changes whenever one is freed.
  [[nodiscard]] const Cookie* oldest() const noexcept {
    return tail_.load(std::memory_order_acquire);
  }

  // Frees `cookie` and all that were posted before it.
  void retire(const Cookie* cookie) noexcept {
    tail_.store(cookie->next, std::memory_order_release);
  }

  // Frees all. REQUIRES: no poster, no reaper, and no unprocessed completion of this ring.
  void clear() noexcept {
    tail_.store(head_.load(std::memory_order_relaxed), std::memory_order_release);
  }

  // Whether resize(limit) is possible now: always up to the size of the ring, and beyond that only
  // while nothing is outstanding, because posted cookies are not moved.
  [[nodiscard]] bool can_resize(std::uint32_t limit) const noexcept {
    const std::uint32_t posted = outstanding();
    return posted == 0 || (limit >= posted && limit < slots().count);
  }
  // REQUIRES: can_resize(limit); no poster, no reaper. If it throws std::bad_alloc, nothing has
  // changed.
  void resize(std::uint32_t limit) {
    if (limit >= slots().count) return allocate(limit);
    limit_ = limit;
    end_ = head_.load(std::memory_order_relaxed);  // makes the next claim() call look()
  }

  // May be called by any thread. Slots are exchanged only while nothing is outstanding.
  [[nodiscard]] std::uint32_t outstanding() const noexcept {
    const Slots& all = slots();
    const Cookie* tail = nullptr;
    const Cookie* head = nullptr;
    do {  // until the pair is consistent: the reaper may have moved on between the two loads
      tail = tail_.load(std::memory_order_acquire);
      head = head_.load(std::memory_order_acquire);
    } while (tail != tail_.load(std::memory_order_relaxed));
    const auto is_inside = [&all](const Cookie* slot) {
      return !std::less<>()(slot, all.first()) && std::less<>()(slot, all.first() + all.count);
    };
    if (!is_inside(tail) || !is_inside(head)) return 0;
    return static_cast<std::uint32_t>(head >= tail ? head - tail : head - tail + all.count);
  }
  // Whether a request is outstanding that makes an event even if it succeeds. Suppressed requests
  // may have succeeded without a completion. REQUIRES: no poster.
  [[nodiscard]] bool awaits_event() const noexcept {
    const Cookie* const head = head_.load(std::memory_order_relaxed);
    const Cookie* slot = tail_.load(std::memory_order_acquire);
    while (slot != head && slot->suppressed) slot = slot->next;
    return slot != head;
  }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  // Prefetches what the next post and the next completion need.
  void prefetch() const noexcept {
    prefetch_bytes(head_.load(std::memory_order_relaxed), sizeof(Cookie));
    prefetch_bytes(tail_.load(std::memory_order_relaxed), sizeof(Cookie));
  }

 private:
  struct Slots {
    std::unique_ptr<Cookie[]> cookies;
    std::size_t count = 0;
    std::unique_ptr<Slots> later;  // the slots that replaced these
    [[nodiscard]] Cookie* first() const noexcept { return cookies.get(); }
  };

  [[nodiscard]] const Slots& slots() const noexcept {
    return *slots_.load(std::memory_order_acquire);
  }

  void allocate(std::uint32_t limit) {
    Slots* const former = slots_.load(std::memory_order_relaxed);
    if (former == nullptr) return use(slots_at_first_, limit);
    auto fresh = std::make_unique<Slots>();
    use(*fresh, limit);
    former->later = std::move(fresh);
  }
  // One slot more than can be outstanding, so that a full ring differs from an empty one.
  void use(Slots& slots, std::uint32_t limit) {
    slots.count = std::size_t{std::bit_ceil(std::max(limit, 1U))} + 1;
    slots.cookies = std::make_unique<Cookie[]>(slots.count);
    Cookie* const first = slots.first();
    for (Cookie* slot = first; slot != first + slots.count; ++slot) {
      slot->ep = owner_;
      slot->next = slot + 1;
    }
    first[slots.count - 1].next = first;
    limit_ = limit;
    end_ = first;
    slots_.store(&slots, std::memory_order_release);
    head_.store(first, std::memory_order_relaxed);
    tail_.store(first, std::memory_order_relaxed);
  }
  [[nodiscard]] Cookie* advance(Cookie* slot, std::uint32_t by) const noexcept {
    const Slots& all = slots();
    const std::size_t index = static_cast<std::size_t>(slot - all.first()) + by;
    return all.first() + (index >= all.count ? index - all.count : index);
  }

  EpQueues* const owner_;
  std::uint32_t limit_ = 0;
  // Replaced slots are kept for concurrent calls of outstanding(); each set is twice the size of
  // the one before.
  Slots slots_at_first_;
  std::atomic<Slots*> slots_{nullptr};  // the latest
  // Slots from head_ up to this one are known to be free, so that the poster need not read the
  // reaper's cache line.
  Cookie* end_ = nullptr;
  alignas(64) std::atomic<Cookie*> head_{nullptr};  // the slot to claim next
  alignas(64) std::atomic<Cookie*> tail_{nullptr};  // the oldest that is not retired
};

}  // namespace udapl::dapl
