// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call_probe.h"
#include "tests/unit/soft/support.h"

#include <atomic>

namespace udapl::soft::test {

// Blocks one call of the given kind until release(). Meanwhile the service threads drive the sides.
class Parked {
 public:
  explicit Parked(Decided what) {
    wanted_ = what;
    state_ = kWanted;
    call_probe.store(&Parked::probe);
  }
  ~Parked() {
    release();
    call_probe.store(nullptr);
  }
  [[nodiscard]] bool reached() const {
    return eventually([] { return state_ != kWanted; });
  }
  void release() { state_ = kReleased; }

 private:
  enum State { kWanted, kHeld, kReleased };
  static void probe(Decided what, const void*) noexcept {
    State expected = kWanted;
    if (what != wanted_ || !state_.compare_exchange_strong(expected, kHeld)) return;
    while (state_ == kHeld) std::this_thread::sleep_for(100us);
  }
  static inline std::atomic<Decided> wanted_{Decided::kTimer};
  static inline std::atomic<State> state_{kReleased};
};

}  // namespace udapl::soft::test
