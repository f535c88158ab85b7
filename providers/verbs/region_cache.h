// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace udapl::verbs {

// A registration, as far as posts have to know it.
struct KnownRegion {
  DAT_LMR_CONTEXT key;
  DAT_VADDR first;
  DAT_VLEN length;
  bool writable;

  [[nodiscard]] bool contains(const DAT_LMR_TRIPLET& segment) const noexcept {
    const DAT_VLEN offset = segment.virtual_address - first;
    return offset <= length && segment.segment_length <= length - offset;
  }
};

// Registrations that one queue of a QP has used, so that its posts need not ask the MemoryTable;
// and what allows the next post at once if it is like the one before ("primed").
//
// Thread-safe for one poster, who has the queue's lock, and anybody who calls forget() or block().
// A registration that goes is first taken from the MemoryTable, then all caches forget what they
// know. A poster who looked it up before and keeps it after that is caught: forgotten() has
// changed. Where no order is named it is the sequential one, which that needs.
class RegionCache {
 public:
  // May a segment with this tag begin at `address`? What a tag says of a segment is up to who
  // primes.
  [[nodiscard]] bool allows(std::uint64_t tag, DAT_VADDR address) const noexcept {
    return tag_.load(std::memory_order_relaxed) == tag && address - first_ < count_;
  }
  // `count` addresses from `first` on are allowed to segments with this tag, which is not kNone.
  // `forgotten`: what forgotten() was before the region was found.
  void prime(std::uint64_t tag, DAT_VADDR first, DAT_VLEN count, std::uint64_t forgotten) noexcept {
    first_ = first;
    count_ = count;
    tag_.store(tag);  // before the look, as forget() and block() say it before they erase
    if (forgotten_.load() != forgotten || blocked_.load())
      tag_.store(kNone, std::memory_order_relaxed);
  }

  // The region of that key; null: not known.
  [[nodiscard]] const KnownRegion* find(DAT_LMR_CONTEXT key) const noexcept {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) == key ? &entry.region : nullptr;
  }
  // `forgotten`: as for prime().
  void remember(const KnownRegion& region, std::uint64_t forgotten) noexcept {
    Entry& entry = entries_[slot_of(region.key)];
    entry.region = region;
    entry.key.store(region.key);  // before the look, as in prime()
    if (forgotten_.load() != forgotten) entry.key.store(kNone, std::memory_order_relaxed);
  }

  // How often it has forgotten everything.
  [[nodiscard]] std::uint64_t forgotten() const noexcept {
    return forgotten_.load(std::memory_order_acquire);
  }
  void forget() noexcept {
    forgotten_.fetch_add(1);
    tag_.store(kNone);
    for (Entry& entry : entries_) entry.key.store(kNone);
  }
  // The region of that key only.
  void forget(DAT_LMR_CONTEXT key) noexcept {
    forgotten_.fetch_add(1);
    tag_.store(kNone);
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load() == key) entry.key.store(kNone);
  }
  // Nothing is allowed at once until that is taken back: posts have more to do.
  void block(bool blocked) noexcept {
    blocked_.store(blocked);
    if (blocked) tag_.store(kNone);
  }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;

  struct Entry {
    std::atomic<std::uint64_t> key{kNone};  // keys have 32 bits
    KnownRegion region{};                   // the poster's
  };
  [[nodiscard]] static std::size_t slot_of(DAT_LMR_CONTEXT key) noexcept {
    return (key >> 8) % kEntries;  // the lowest byte of a key tells little
  }
  static constexpr std::size_t kEntries = 8;

  std::atomic<std::uint64_t> tag_{kNone};
  DAT_VADDR first_ = 0;  // the poster's, as count_
  DAT_VLEN count_ = 0;
  std::atomic<std::uint64_t> forgotten_{0};
  std::atomic<bool> blocked_{false};
  std::array<Entry, kEntries> entries_;
};

}  // namespace udapl::verbs
