// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/tuning.h"
#include "providers/reactor/watch_table.h"

#include <algorithm>
#include <cstdint>

namespace udapl {

// The handler that is expected to be ready next while a thread polls: the one that was ready after
// the last one the last time, which may be the same. While such guesses are right it is hot: it is
// called directly in most turns, without epoll. Owned by a Reactor; used by the thread that holds
// the role, the functions with a WatchTable also under the reactor's lock.
class HotHandler {
 public:
  [[nodiscard]] bool hot() const noexcept { return times_ >= tuning::kHot; }
  // The expected one; may be gone.
  [[nodiscard]] WatchTable::Name name() const noexcept { return name_; }
  // Counts a turn while one is hot, or a look in place of one. Returns whether this turn calls it
  // in place of epoll.
  [[nodiscard]] bool look_due() noexcept {
    if (++looks_ < most_looks()) return true;
    looks_ = 0;
    return false;
  }
  // Whether a look may take the place of a turn: look_due() will return true, and looks cost
  // little.
  [[nodiscard]] bool look_suffices() const noexcept { return quiet_ && looks_ + 1 < most_looks(); }

  // Epoll has reported this one alone. Pollers are never called directly.
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
  // Before a look: finds out which one is expected after this one.
  void look_ahead(const WatchTable& table) noexcept { then_ = table.follower(name_); }
  // After a look: none stays hot that has found nothing for long. One that was not quiet may have
  // taken long, and counts as several.
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
  // After a look that has found nothing: the one that is expected after this one, if there is time
  // to prepare for it; else kNoName.
  [[nodiscard]] WatchTable::Name soon() const noexcept {
    return misses_ == 1 && then_ != name_ ? then_ : WatchTable::kNoName;
  }
  void forget() noexcept { *this = HotHandler(); }

 private:
  void count_right() noexcept {
    if (times_ < tuning::kLooksPerWait) ++times_;
  }
  // A guess is relied upon for longer the more were right, unless there is only one to expect.
  [[nodiscard]] std::uint32_t most_looks() const noexcept {
    return name_ == last_ ? tuning::kLooksPerWait : std::min(times_, tuning::kLooksPerWait);
  }

  WatchTable::Name last_ = WatchTable::kNoName;  // was ready last
  WatchTable::Name name_ = WatchTable::kNoName;
  WatchTable::Name then_ = WatchTable::kNoName;  // expected after that one
  std::uint32_t times_ = 0;                      // right guesses in a row
  std::uint32_t looks_ = 0;                      // since epoll was polled
  std::uint32_t misses_ = 0;                     // in a row
  bool quiet_ = false;                           // the last look that found nothing was
};

}  // namespace udapl
