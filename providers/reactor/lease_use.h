// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"
#include "providers/reactor/tuning.h"

#include <atomic>
#include <cstdint>

namespace udapl {

// Tells a consumer whose polls do not drive whether the application still does. Owned by a Reactor.
// Used by polling threads.
class LeaseUse {
 public:
  // `uses`: a number that changes when a thread of the application drives. Returns whether it has
  // changed since the last poll.
  [[nodiscard]] bool changed(std::uint32_t uses) noexcept {
    if (uses == uses_.load(std::memory_order_acquire)) return false;
    since_.store(0, std::memory_order_relaxed);
    // release: a thread that finds it unchanged afterwards sees what was stored before.
    uses_.store(uses, std::memory_order_release);
    return true;
  }
  // Called if changed() has returned false. Returns whether the last change is long ago.
  [[nodiscard]] bool ended(Clock::time_point now) noexcept {
    const Clock::rep since = since_.load(std::memory_order_relaxed);
    if (since == 0) since_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    return since != 0 && now - Clock::time_point(Clock::duration(since)) >= tuning::kUnusedLease;
  }

 private:
  std::atomic<Clock::rep> since_{0};  // the first poll that found no change; 0: none yet
  std::atomic<std::uint32_t> uses_{0};
};

}  // namespace udapl
