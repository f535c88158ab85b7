// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/tuning.h"
#include "providers/reactor/watch_table.h"

#include <algorithm>
#include <cstdint>

namespace udapl {

// Guesses which handler is ready next while a thread polls: the one that followed the last ready
// handler the previous time, which may be that handler itself. While the guesses are right, the
// expected handler is hot: most turns call it directly instead of polling epoll. Owned by a
// Reactor; used by the thread that holds the role; functions with a WatchTable need the reactor's
// lock as well.
class HotHandler {
 public:
  [[nodiscard]] bool hot() const noexcept { return times_ >= tuning::kHot; }
  // The expected handler, which may have been removed.
  [[nodiscard]] WatchTable::Name name() const noexcept { return name_; }
  // Counts a turn while a handler is hot, or a look that replaces a turn. Returns whether this turn
  // calls the handler instead of polling epoll.
  [[nodiscard]] bool look_due() noexcept {
    if (++looks_ < most_looks()) return true;
    looks_ = 0;
    return false;
  }
  // Whether a look may replace a turn: look_due() will return true, and looks cost little.
  [[nodiscard]] bool look_suffices() const noexcept { return quiet_ && looks_ + 1 < most_looks(); }

  // Epoll has reported only this handler. Pollers never become hot.
  void ready(WatchTable::Name name, WatchTable& table) noexcept {
    const WatchTable::Slot* const slot = table.find(name);
    if (slot == nullptr || slot->poller) return forget();
    const bool expected = table.follows(name, last_) || name == last_;
    if (!expected) *this = HotHandler();
    count_right();
    last_ = name;
    const WatchTable::Name next = table.follower(name);
    name_ = next == WatchTable::kNoName ? name : next;
  }
  // Before a look: determines which handler is expected after this one.
  void look_ahead(const WatchTable& table) noexcept { then_ = table.follower(name_); }
  // After a look: a handler that has found nothing for long does not stay hot. A look that was not
  // quiet may have taken long, and counts as several.
  void looked(bool found, bool quiet) noexcept {
    const std::uint32_t weight = quiet ? 1 : tuning::kQuietPerLook;
    looks_ += weight - 1;
    if (found) {
      misses_ = 0;
      count_right();
      last_ = name_;
      if (then_ != WatchTable::kNoName) name_ = then_;
      return;
    }
    quiet_ = quiet;
    misses_ += weight;
    if (misses_ >= tuning::kColdAfter) forget();
  }
  // After a look that has found nothing: the handler that is expected after this one, if there is
  // time to prepare for it; otherwise kNoName.
  [[nodiscard]] WatchTable::Name soon() const noexcept {
    return misses_ == 1 && then_ != name_ ? then_ : WatchTable::kNoName;
  }
  void forget() noexcept { *this = HotHandler(); }

 private:
  void count_right() noexcept {
    if (times_ < tuning::kLooksPerWait) ++times_;
  }
  // The more guesses were right, the more looks are made, unless only one handler is ready at all.
  [[nodiscard]] std::uint32_t most_looks() const noexcept {
    return name_ == last_ ? tuning::kLooksPerWait : std::min(times_, tuning::kLooksPerWait);
  }

  WatchTable::Name last_ = WatchTable::kNoName;  // was ready last
  WatchTable::Name name_ = WatchTable::kNoName;
  WatchTable::Name then_ = WatchTable::kNoName;  // expected after the expected one
  std::uint32_t times_ = 0;                      // right guesses in a row
  std::uint32_t looks_ = 0;                      // since epoll was polled
  std::uint32_t misses_ = 0;                     // in a row
  bool quiet_ = false;                           // the last look that found nothing was quiet
};

}  // namespace udapl
