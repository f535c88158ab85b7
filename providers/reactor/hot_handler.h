// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/tuning.h"
#include "providers/reactor/watch_table.h"

#include <cstdint>

namespace udapl {

// The handler that is ready time after time while a thread polls: it is called directly in most
// turns, without epoll. Owned by a Reactor; used by the thread that holds the role.
class HotHandler {
 public:
  [[nodiscard]] bool hot() const noexcept { return times_ >= tuning::kHot; }
  // The handler that was ready last; may be gone.
  [[nodiscard]] WatchTable::Name name() const noexcept { return name_; }
  // Counts a turn while one is hot, or a look in place of one. Returns whether this turn calls it
  // in place of epoll.
  [[nodiscard]] bool look_due() noexcept {
    if (++looks_ < tuning::kLooksPerWait) return true;
    looks_ = 0;
    return false;
  }
  // Whether a look may take the place of a turn: look_due() will return true, and looks cost
  // little.
  [[nodiscard]] bool look_suffices() const noexcept {
    return quiet_ && looks_ + 1 < tuning::kLooksPerWait;
  }

  // Epoll has reported this one alone.
  void ready(WatchTable::Name name) noexcept {
    if (name == name_)
      ++times_;
    else
      *this = HotHandler(name);
  }
  // After a look: none stays hot that has found nothing for long. One that was not quiet may have
  // taken long, and counts as several.
  void looked(bool found, bool quiet) noexcept {
    const std::uint32_t weight = quiet ? 1 : tuning::kQuietPerLook;
    looks_ += weight - 1;
    if (!found) quiet_ = quiet;
    misses_ = found ? 0 : misses_ + weight;
    if (misses_ >= tuning::kColdAfter) forget();
  }
  void forget() noexcept { *this = HotHandler(); }

  HotHandler() = default;

 private:
  explicit HotHandler(WatchTable::Name name) noexcept : name_(name), times_(1) {}

  WatchTable::Name name_ = WatchTable::kNoName;
  std::uint32_t times_ = 0;   // ready in a row
  std::uint32_t looks_ = 0;   // since epoll was polled
  std::uint32_t misses_ = 0;  // in a row
  bool quiet_ = false;        // the last look that found nothing was
};

}  // namespace udapl
