// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/mr_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace udapl::soft {

// The pins of one sendmsg call: one for each registration, however often and in whatever order it
// is used. So if everything in a set fits, any part of it fits again after clear(). Memory for many
// pins is allocated only when it is needed, because there may be many idle connections. Not
// thread-safe. Owned by a Queue.
class PinSet {
 public:
  static constexpr std::size_t kFew = 40;  // more than one request needs
  static constexpr std::size_t kMany = 320;

  // Whether that many registrations more can be added. May allocate.
  [[nodiscard]] bool has_room(std::size_t more) noexcept {
    return capacity_ - size_ >= more || (grow() && capacity_ - size_ >= more);
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  // Returns false if the memory is no longer registered, or if there is no room for its pin; the
  // caller excludes the latter by has_room(), or by adding only what was in the set before.
  [[nodiscard]] bool add(MrTable& memory, MrRef ref) noexcept {
    if (size_ != 0 && (ref == last_ || holds(ref))) return true;
    if (!has_room(1)) [[unlikely]]
      return false;
    Held& held = at(size_);
    held.pin = memory.pin(ref);
    if (!held.pin) return false;
    held.ref = last_ = ref;
    ++size_;
    return true;
  }
  void clear() noexcept {
    while (size_ != 0) at(--size_).pin = MrTable::Pin();
  }

 private:
  struct Held {
    MrTable::Pin pin;
    MrRef ref;
  };
  using More = std::array<Held, kMany - kFew>;

  [[nodiscard]] Held& at(std::size_t i) noexcept { return i < kFew ? few_[i] : (*more_)[i - kFew]; }
  [[nodiscard]] bool holds(MrRef ref) const noexcept {
    const std::size_t few = std::min(size_, kFew);
    return among(std::span(few_).first(few), ref) ||
           (size_ > kFew && among(std::span(*more_).first(size_ - kFew), ref));
  }
  [[nodiscard]] static bool among(std::span<const Held> some, MrRef ref) noexcept {
    return std::ranges::find(some, ref, &Held::ref) != some.end();
  }
  [[nodiscard]] bool grow() noexcept {
    if (more_ != nullptr) return false;
    more_.reset(new (std::nothrow) More);
    if (more_ == nullptr) return false;
    capacity_ = kMany;
    return true;
  }

  std::array<Held, kFew> few_;
  std::unique_ptr<More> more_;
  std::size_t capacity_ = kFew;
  std::size_t size_ = 0;
  MrRef last_;  // was added last
};

}  // namespace udapl::soft
