// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/callbacks.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace udapl {

// The handlers that a reactor watches. Each has a slot and a name, which epoll stores as the data
// of its events. Names are never reused, so that an event of a removed handler is recognised. Owned
// by a Reactor; used under its lock.
class WatchTable {
 public:
  using Name = std::uint64_t;  // the slot's index in the low half, its generation in the high half
  static constexpr Name kNoName = UINT64_MAX;
  static constexpr std::uint32_t kNone = WatchSlot::kNone;

  struct Slot {
    Handler* handler = nullptr;
    int fd = -1;  // valid only if WatchSlot::only_reads
    std::uint32_t generation = 0;
    std::uint32_t next = kNone;  // see follower(); in a free slot: the next free one
    bool poller = false;
  };

  // The slot that add() will use. Throws std::bad_alloc.
  std::uint32_t reserve() {
    if (free_ == kNone) {
      slots_.emplace_back();
      free_ = static_cast<std::uint32_t>(slots_.size() - 1);
    }
    return free_;
  }
  // REQUIRES: reserve().
  void add(Handler& handler, int fd, bool poller) noexcept {
    Slot& slot = slots_[free_];
    handler.watch_slot.index_ = free_;
    free_ = std::exchange(slot.next, kNone);
    slot.handler = &handler;
    slot.fd = handler.watch_slot.only_reads ? fd : -1;
    slot.poller = poller;
  }
  // Does nothing if the handler is not watched.
  void remove(Handler& handler) noexcept {
    const std::uint32_t index = index_of(handler);
    if (index == kNone) return;
    handler.watch_slot.index_ = kNone;
    Slot& slot = slots_[index];
    slot.handler = nullptr;
    ++slot.generation;
    slot.next = free_;
    free_ = index;
  }

  // ---- which handler is ready after which: hints -----------------------------------------------
  // Records that the handler `name` was ready after `before`. Returns whether it was the previous
  // time as well.
  bool follows(Name name, Name before) noexcept {
    if (find(before) == nullptr) return false;
    return std::exchange(slots_[index_of(before)].next, index_of(name)) == index_of(name);
  }
  // Returns the handler that was ready after this one the previous time, or kNoName.
  [[nodiscard]] Name follower(Name name) const noexcept {
    const Slot* const slot = find(name);
    if (slot == nullptr || slot->next == kNone || slots_[slot->next].handler == nullptr)
      return kNoName;
    return name_of(slot->next);
  }

  [[nodiscard]] static std::uint32_t index_of(const Handler& handler) noexcept {
    return handler.watch_slot.index_;  // kNone: the handler is not watched
  }
  [[nodiscard]] static std::uint32_t index_of(Name name) noexcept {
    return static_cast<std::uint32_t>(name);
  }
  [[nodiscard]] Name name_of(std::uint32_t index) const noexcept {
    return Name{slots_[index].generation} << 32 | index;
  }
  [[nodiscard]] const Slot& operator[](std::uint32_t index) const noexcept { return slots_[index]; }
  // Null if no handler of this name is watched. There may never have been one, if the event comes
  // from a descriptor of the program: see EventSet::lose().
  [[nodiscard]] const Slot* find(Name name) const noexcept {
    if (index_of(name) >= slots_.size()) return nullptr;
    const Slot& slot = slots_[index_of(name)];
    return slot.handler != nullptr && slot.generation == name >> 32 ? &slot : nullptr;
  }

 private:
  std::vector<Slot> slots_;
  std::uint32_t free_ = kNone;
};

}  // namespace udapl
