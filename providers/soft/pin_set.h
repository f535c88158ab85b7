// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/mr_table.h"

#include <array>
#include <cstddef>

namespace udapl::soft {

// The pins of one sendmsg call. Requests mostly use one registration many times in a row: that
// takes one pin. Not thread-safe. Owned by a Qp.
class PinSet {
 public:
  static constexpr std::size_t kCapacity = 320;

  [[nodiscard]] bool has_room(std::size_t more) const noexcept { return kCapacity - size_ >= more; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  // False: the memory is no longer registered. REQUIRES: has_room(1).
  [[nodiscard]] bool add(MrTable& memory, MrRef ref) noexcept {
    if (size_ != 0 && ref.index == last_.index && ref.generation == last_.generation) return true;
    pins_[size_] = memory.pin(ref);
    if (!pins_[size_]) return false;
    ++size_;
    last_ = ref;
    return true;
  }
  void clear() noexcept {
    while (size_ != 0) pins_[--size_] = MrTable::Pin();
  }

 private:
  std::array<MrTable::Pin, kCapacity> pins_;
  std::size_t size_ = 0;
  MrRef last_;
};

}  // namespace udapl::soft
