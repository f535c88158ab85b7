// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace udapl::verbs {

// The properties of a registration that posts need.
struct KnownRegion {
  DAT_LMR_CONTEXT key;
  DAT_VADDR first;
  DAT_VLEN length;
  bool writable;

  [[nodiscard]] bool contains_start_of(const DAT_LMR_TRIPLET& segment) const noexcept {
    return segment.virtual_address - first <= length;
  }
  [[nodiscard]] bool contains(const DAT_LMR_TRIPLET& segment) const noexcept {
    const DAT_VLEN offset = segment.virtual_address - first;
    return offset <= length && segment.segment_length <= length - offset;
  }
};

// Caches the registrations that one queue of a QP has used, so that its posts need not search the
// MemoryTable. It can also be *primed* with a post, so that similar posts need only one check.
//
// Thread-safe for one posting thread, which holds the queue's lock, and any number of threads that
// call forget() or block(). A registration is removed first from the MemoryTable, then from all
// caches. If a posting thread has looked up the registration before and stores it afterwards, it
// sees that forgotten() has changed. This requires sequential consistency, the default where no
// memory order is given.
class RegionCache {
 public:
  // Returns whether a segment with this tag may begin at `address`. The caller of prime() defines
  // what a tag stands for.
  [[nodiscard]] bool allows(std::uint64_t tag, DAT_VADDR address) const noexcept {
    return tag_.load(std::memory_order_relaxed) == tag && address - first_ < count_;
  }
  // Allows segments with this tag (not kNone) to begin at `count` addresses from `first` on.
  // `forgotten`: the value of forgotten() before the region was looked up.
  void prime(std::uint64_t tag, DAT_VADDR first, DAT_VLEN count, std::uint64_t forgotten) noexcept {
    first_ = first;
    count_ = count;
    // Stored before the check, because forget() and block() change what is checked before they
    // erase the tag.
    tag_.store(tag);
    if (forgotten_.load() != forgotten || blocked_.load())
      tag_.store(kNone, std::memory_order_relaxed);
  }

  // The region of that key; null if it is not cached.
  [[nodiscard]] const KnownRegion* find(DAT_LMR_CONTEXT key) const noexcept {
    const Entry& entry = entries_[slot_of(key)];
    return entry.key.load(std::memory_order_relaxed) == key ? &entry.region : nullptr;
  }
  // `forgotten`: as for prime().
  void remember(const KnownRegion& region, std::uint64_t forgotten) noexcept {
    Entry& entry = entries_[slot_of(region.key)];
    entry.region = region;
    entry.key.store(region.key);  // before the check, as in prime()
    if (forgotten_.load() != forgotten) entry.key.store(kNone, std::memory_order_relaxed);
  }

  // Counts the calls of forget().
  [[nodiscard]] std::uint64_t forgotten() const noexcept {
    return forgotten_.load(std::memory_order_acquire);
  }
  void forget() noexcept {
    forgotten_.fetch_add(1);
    tag_.store(kNone);
    for (Entry& entry : entries_) entry.key.store(kNone);
  }
  // Forgets only the region of that key.
  void forget(DAT_LMR_CONTEXT key) noexcept {
    forgotten_.fetch_add(1);
    tag_.store(kNone);
    Entry& entry = entries_[slot_of(key)];
    if (entry.key.load() == key) entry.key.store(kNone);
  }
  // While blocked, allows() returns false, because posts have more to do than this check.
  void block(bool blocked) noexcept {
    blocked_.store(blocked);
    if (blocked) tag_.store(kNone);
  }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;

  struct Entry {
    std::atomic<std::uint64_t> key{kNone};  // keys have 32 bits
    KnownRegion region{};                   // used only by the posting thread
  };
  [[nodiscard]] static std::size_t slot_of(DAT_LMR_CONTEXT key) noexcept {
    return (key >> 8) % kEntries;  // the lowest byte of a key varies little
  }
  static constexpr std::size_t kEntries = 8;

  std::atomic<std::uint64_t> tag_{kNone};
  DAT_VADDR first_ = 0;  // used only by the posting thread, like count_
  DAT_VLEN count_ = 0;
  std::atomic<std::uint64_t> forgotten_{0};
  std::atomic<bool> blocked_{false};
  std::array<Entry, kEntries> entries_;
};

}  // namespace udapl::verbs
