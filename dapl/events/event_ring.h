// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace udapl::dapl {

// A first-in-first-out queue of events. Not thread-safe, except that any thread may call size().
// Owned by an Evd, whose ring lock protects it.
class EventRing {
 public:
  // Throws std::bad_alloc. The memory is not touched before events use it.
  explicit EventRing(std::size_t capacity)
      : capacity_(capacity), slots_(new DAT_EVENT[std::max<std::size_t>(capacity, 1)]) {}

  // A snapshot if the caller does not hold the lock.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool full() const noexcept { return size() >= capacity_; }

  // The slot of the next event; commit() queues it. REQUIRES: !full().
  [[nodiscard]] DAT_EVENT& next() noexcept {
    return slots_[wrap(head_ + size_.load(std::memory_order_relaxed))];
  }
  void commit() noexcept {
    size_.store(size_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // False when empty; then *event is not written.
  [[nodiscard]] bool pop(DAT_EVENT* event) noexcept {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (size == 0) return false;
    *event = slots_[head_];
    head_ = wrap(head_ + 1);
    ++popped_;
    size_.store(size - 1, std::memory_order_release);
    return true;
  }
  // How many events have been popped so far.
  [[nodiscard]] std::uint64_t popped() const noexcept { return popped_; }

  void clear() noexcept { size_.store(0, std::memory_order_release); }

  // Moves all events into the storage of `other`, which gets the old one.
  // REQUIRES: other is empty and has room for all.
  void move_into(EventRing& other) noexcept {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < size; ++i) other.slots_[i] = slots_[wrap(head_ + i)];
    std::swap(slots_, other.slots_);
    std::swap(capacity_, other.capacity_);
    head_ = 0;
  }

 private:
  [[nodiscard]] std::size_t wrap(std::size_t index) const noexcept {
    return index >= capacity_ ? index - capacity_ : index;
  }

  std::size_t capacity_;
  std::unique_ptr<DAT_EVENT[]> slots_;
  std::size_t head_ = 0;
  std::uint64_t popped_ = 0;
  std::atomic<std::size_t> size_{0};
};

}  // namespace udapl::dapl
