// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/mr_table.h"

#include <utility>

namespace udapl::soft {

// The pin of a registration that one part of a QP uses again and again. It is kept between the
// messages, because acquiring and releasing it takes two locked instructions. A registration is
// kept only at its second use, if no other one was used between: otherwise a program that registers
// memory for each message would pay for letting go of each. Not thread-safe: used under the lock of
// the Qp, which is the MrTable::Keeper.
class KeptPin {
 public:
  // Returns whether the memory is pinned until the next call. If not, the caller needs a pin of its
  // own for each access.
  [[nodiscard]] bool holds(MrTable& memory, MrRef ref) noexcept {
    return ref == kept_ || (uses_again(ref) && keep(memory, ref, memory.pin(ref)));
  }
  // The memory of a consumer's segment if that is inside the registration whose pin is kept, and if
  // all that MrTable::resolve() checks is in order. Otherwise null.
  [[nodiscard]] std::byte* resolve(const DAT_LMR_TRIPLET& segment, ScopeId pd,
                                   std::uint32_t right) const noexcept {
    return extent_.resolve(segment, pd, right);
  }
  // The registration whose pin is kept.
  [[nodiscard]] MrRef kept() const noexcept { return kept_; }
  // Counts a use of a registration that is not kept. Returns whether it is the second one, so that
  // keep() is worth while.
  [[nodiscard]] bool uses_again(MrRef ref) noexcept {
    return std::exchange(last_, ref) == ref && ref.generation != 0;
  }
  // Returns false if the pin is empty; then the one that was kept remains.
  bool keep(const MrTable& memory, MrRef ref, MrTable::Pin pin) noexcept {
    if (!pin) return false;
    pin_ = std::move(pin);
    kept_ = ref;
    extent_ = memory.extent(ref);
    return true;
  }
  void let_go(MrRef ref) noexcept {
    if (ref != kept_) return;
    pin_ = MrTable::Pin();
    kept_ = MrRef();
    extent_ = MrTable::Extent();
  }

 private:
  MrTable::Pin pin_;
  MrRef kept_;
  MrRef last_;
  MrTable::Extent extent_;  // of kept_
};

}  // namespace udapl::soft
