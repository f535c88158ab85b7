// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call_probe.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace udapl::test {

// Blocks one call of the given kind until release(). Meanwhile the other threads go on.
class Parked {
 public:
  // The next call for any object.
  explicit Parked(Decided what) : Parked(what, nullptr, SIZE_MAX) {}
  // The next call for an object within these bytes.
  Parked(Decided what, const void* whole, std::size_t size) {
    wanted_ = what;
    from_ = reinterpret_cast<std::uintptr_t>(whole);
    size_ = size;
    state_ = kWanted;
    call_probe.store(&Parked::probe);
  }
  ~Parked() {
    release();
    call_probe.store(nullptr);
  }
  Parked(const Parked&) = delete;
  Parked& operator=(const Parked&) = delete;

  // Waits until a call is blocked. Returns false if none came for so long that something hangs.
  [[nodiscard]] bool reached() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (state_ == kWanted) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }
  void release() { state_ = kReleased; }

 private:
  enum State { kWanted, kHeld, kReleased };
  static void probe(Decided what, const void* object) noexcept {
    State expected = kWanted;
    if (what != wanted_ || reinterpret_cast<std::uintptr_t>(object) - from_ >= size_ ||
        !state_.compare_exchange_strong(expected, kHeld))
      return;
    while (state_ == kHeld) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  static inline std::atomic<Decided> wanted_{Decided::kTimer};
  static inline std::atomic<std::uintptr_t> from_{0};
  static inline std::atomic<std::size_t> size_{SIZE_MAX};
  static inline std::atomic<State> state_{kReleased};
};

}  // namespace udapl::test
