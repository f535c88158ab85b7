// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/mr_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace udapl::soft {

// The pins that a sendmsg call needs. Each registration is pinned once, however often and in
// whatever order it is added. So if a set of segments fits, any part of it fits again after
// clear(). Memory for more than a few pins is allocated only when it is needed, because there may
// be many idle connections. Not thread-safe. Owned by a Queue.
class PinSet {
 public:
  static constexpr std::size_t kFew = 8;
  static constexpr std::size_t kSome = 40;  // more than one request needs
  static constexpr std::size_t kMany = 320;

  PinSet() noexcept = default;
  PinSet(const PinSet&) = delete;
  PinSet& operator=(const PinSet&) = delete;

  // Allocates enough for a request of this many segments, so that it always fits after clear().
  // Throws std::bad_alloc.
  void reserve_for(std::size_t segments) {
    if (segments >= kFew && capacity_ == kFew) move_to(std::make_unique<Held[]>(kSome), kSome);
  }
  // Returns whether this many more registrations can be added. May allocate.
  [[nodiscard]] bool has_room(std::size_t more) noexcept {
    while (capacity_ - size_ < more) {
      if (!grow()) return false;
    }
    return true;
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  // Returns false if the memory is no longer registered, or if there is no room for the pin.
  // Callers exclude the latter: they call has_room() first, or add only what was in the set before
  // clear().
  [[nodiscard]] bool add(MrTable& memory, MrRef ref) noexcept {
    if (size_ != 0 && (ref == last_ || holds(ref))) return true;
    if (!has_room(1)) [[unlikely]]
      return false;
    Held& held = held_[size_];
    held.pin = memory.pin(ref);
    if (!held.pin) return false;
    held.ref = last_ = ref;
    ++size_;
    return true;
  }
  void clear() noexcept {
    while (size_ != 0) held_[--size_].pin = MrTable::Pin();
  }

 private:
  struct Held {
    MrTable::Pin pin;
    MrRef ref;
  };

  [[nodiscard]] bool holds(MrRef ref) const noexcept {
    const std::span<const Held> all(held_, size_);
    return std::ranges::find(all, ref, &Held::ref) != all.end();
  }
  [[nodiscard]] bool grow() noexcept {
    if (capacity_ == kMany) return false;
    const std::size_t capacity = capacity_ < kSome ? kSome : kMany;
    std::unique_ptr<Held[]> more(new (std::nothrow) Held[capacity]);
    if (more == nullptr) return false;
    move_to(std::move(more), capacity);
    return true;
  }
  void move_to(std::unique_ptr<Held[]> more, std::size_t capacity) noexcept {
    std::move(held_, held_ + size_, more.get());
    more_ = std::move(more);
    held_ = more_.get();
    capacity_ = capacity;
  }

  std::array<Held, kFew> few_;
  std::unique_ptr<Held[]> more_;
  Held* held_ = few_.data();
  std::size_t capacity_ = kFew;
  std::size_t size_ = 0;
  MrRef last_;  // the registration that was added last
};

}  // namespace udapl::soft
