// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/mr_table.h"

#include <utility>

namespace udapl::soft {

// The pin of a registration that one part of a QP uses for many messages. It is kept from one
// message to the next, because acquiring and releasing a pin takes two locked instructions. The pin
// is kept from the second use of the registration on, if no other registration was used between:
// otherwise a program that registers memory for each message would pay for the release of each kept
// pin. Not thread-safe: used under the lock of the Qp, which is the MrTable::Keeper.
class KeptPin {
 public:
  // Returns whether this holds a pin of the registration, at least until the next call of a
  // function that may replace or release it. If not, the caller needs its own pin for each access.
  [[nodiscard]] bool holds(MrTable& memory, MrRef ref) noexcept {
    return ref == kept_ || (uses_again(ref) && keep(memory, ref, memory.pin(ref)));
  }
  // Returns the memory of a consumer's segment, if the segment is inside the registration whose pin
  // is kept and passes the checks of MrTable::resolve(). Otherwise returns null.
  [[nodiscard]] std::byte* resolve(const DAT_LMR_TRIPLET& segment, ScopeId pd,
                                   std::uint32_t right) const noexcept {
    return extent_.resolve(segment, pd, right);
  }
  // The registration whose pin is kept.
  [[nodiscard]] MrRef kept() const noexcept { return kept_; }
  // Notes a use of a registration whose pin is not kept. Returns whether the use before was one of
  // the same registration: then keep() should be called.
  [[nodiscard]] bool uses_again(MrRef ref) noexcept {
    return std::exchange(last_, ref) == ref && ref.generation != 0;
  }
  // Keeps `pin` instead of the former one. Returns false, and keeps the former one, if `pin` is
  // empty.
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
