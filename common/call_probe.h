// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>

namespace udapl {

// Lets tests interleave other work between the decision to make a call and the call itself. Covers
// the calls that a driving thread makes without locks: the probe is called when the call can no
// longer be cancelled, and may delay it. Null: no probe. Each shared library has its own.
enum class Decided : std::uint8_t { kTimer, kSinkCall };
using CallProbe = void (*)(Decided what, const void* object) noexcept;
inline std::atomic<CallProbe> call_probe{nullptr};

inline void about_to_call(Decided what, const void* object) noexcept {
  const CallProbe probe = call_probe.load(std::memory_order_acquire);
  if (probe != nullptr) [[unlikely]]
    probe(what, object);
}

}  // namespace udapl
