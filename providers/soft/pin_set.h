// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/mr_table.h"

#include <array>
#include <cstddef>
#include <memory>
#include <new>

namespace udapl::soft {

// The pins of one sendmsg call. Consecutive uses of the same registration, which are the usual
// case, share one pin. Memory for many pins is allocated only when it is needed, because there may
// be many idle connections. Not thread-safe. Owned by a Queue.
class PinSet {
 public:
  static constexpr std::size_t kFew = 40;  // more than one request needs
  static constexpr std::size_t kMany = 320;

  [[nodiscard]] bool has_room(std::size_t more) noexcept {
    return capacity_ - size_ >= more || (grow() && capacity_ - size_ >= more);
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  // Returns false if the memory is no longer registered. REQUIRES: has_room(1).
  [[nodiscard]] bool add(MrTable& memory, MrRef ref) noexcept {
    if (size_ != 0 && ref.index == last_.index && ref.generation == last_.generation) return true;
    MrTable::Pin& pin = at(size_);
    pin = memory.pin(ref);
    if (!pin) return false;
    ++size_;
    last_ = ref;
    return true;
  }
  void clear() noexcept {
    while (size_ != 0) at(--size_) = MrTable::Pin();
  }

 private:
  [[nodiscard]] MrTable::Pin& at(std::size_t i) noexcept {
    return i < kFew ? few_[i] : (*more_)[i - kFew];
  }
  [[nodiscard]] bool grow() noexcept {
    if (more_ != nullptr) return false;
    more_.reset(new (std::nothrow) More);
    if (more_ == nullptr) return false;
    capacity_ = kMany;
    return true;
  }

  using More = std::array<MrTable::Pin, kMany - kFew>;
  std::array<MrTable::Pin, kFew> few_;
  std::unique_ptr<More> more_;
  std::size_t capacity_ = kFew;
  std::size_t size_ = 0;
  MrRef last_;
};

}  // namespace udapl::soft
