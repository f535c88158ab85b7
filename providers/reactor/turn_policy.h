// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/tuning.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace udapl {

// Decides what a polling thread does besides calling handlers that have input: which polls only
// check the signs of pollers, and which turns poll epoll, check the timers or renew the lease.
// Owned by a Reactor. Called by the thread that holds the role, except where noted.
class TurnPolicy {
 public:
  // ---- whether the application polls habitually ------------------------------------------------
  // Called by any thread.
  [[nodiscard]] bool habitual() const noexcept {
    return turns_.load(std::memory_order_relaxed) >= tuning::kHabit;
  }
  // Grows with each turn, and by more with an interruption: the turn after it is not the next one.
  [[nodiscard]] std::uint32_t turns() const noexcept {
    return before_.load(std::memory_order_relaxed) + turns_.load(std::memory_order_relaxed);
  }
  // Makes the next turn count as habitual.
  void expect_habit() noexcept { begin_row(tuning::kHabit - 1, 0); }
  // Called when a thread has waited, or the service thread has driven.
  void interrupt() noexcept {
    if (turns_.load(std::memory_order_relaxed) != 0) begin_row(0, 2);
  }

  // ---- polls that only check the signs ---------------------------------------------------------
  // Counts such a poll. Returns whether the poll has to make a turn. Called by polling threads:
  // increments may get lost. `some_rest`: not all pollers are awake.
  [[nodiscard]] bool turn_due(bool some_rest) noexcept {
    const std::uint32_t most =
        some_rest ? glances_if_some_rest_.load(std::memory_order_relaxed) : tuning::kGlancesPerTurn;
    const std::uint32_t glances = glances_.load(std::memory_order_relaxed) + 1;
    glances_.store(glances < most ? glances : 0, std::memory_order_relaxed);
    return glances >= most;
  }
  // Called when a poller is called instead of a turn. The poll after every kServesPerTurn-th of
  // these makes a turn, so that other handlers do not wait for longer.
  void begin_serving() noexcept {
    const std::uint32_t turns = turns_.load(std::memory_order_relaxed) + 1;
    turns_.store(turns, std::memory_order_relaxed);
    if (turns % tuning::kServesPerTurn == 0)
      glances_.store(tuning::kGlancesPerTurn, std::memory_order_relaxed);
  }
  void served() noexcept {
    ++found_;
    ++waits_saved_;
  }

  // ---- a turn ----------------------------------------------------------------------------------
  // While pollers are awake: returns whether this turn polls epoll. `found`: a poller had input.
  [[nodiscard]] bool wait_due(bool found, bool some_rest) noexcept {
    waits_saved_ += found ? 1 : tuning::kFoundPerWait / (some_rest ? 1 : turns_per_wait_);
    if (waits_saved_ < tuning::kFoundPerWait) return false;
    waits_saved_ = 0;
    return true;
  }
  // One of these is called after epoll was polled.
  void reported() noexcept {
    turns_per_wait_ = tuning::kTurnsPerWait;
    glances_if_some_rest_.store(tuning::kGlancesIfSomeRest, std::memory_order_relaxed);
  }
  void reported_nothing() noexcept {
    turns_per_wait_ = std::min(2 * turns_per_wait_, tuning::kFoundPerWait);
    const std::uint32_t glances = glances_if_some_rest_.load(std::memory_order_relaxed);
    glances_if_some_rest_.store(std::min(2 * glances, tuning::kGlancesPerTurn),
                                std::memory_order_relaxed);
  }
  // Returns whether this turn checks the timers. `next_turn`: a timer was started for this turn.
  [[nodiscard]] bool timers_due(bool found, bool next_turn) noexcept {
    if (found) ++found_;
    if (found && !next_turn && found_ < tuning::kTimersPerFound) return false;
    found_ = 0;
    return true;
  }
  // Counts the turn. Returns whether it renews the lease: that is left to turns that find nothing,
  // so as not to delay a find, as long as there are enough of these. If each poll finds something,
  // the only turns are those after every kServesPerTurn-th find.
  [[nodiscard]] bool end_turn(bool found) noexcept {
    const std::uint32_t turns = turns_.load(std::memory_order_relaxed) + 1;
    turns_.store(turns, std::memory_order_relaxed);
    if (turns < tuning::kHabit) return false;
    if (found && turns != tuning::kHabit && turns - renewed_at_ < tuning::kHabit) return false;
    renewed_at_ = turns;
    return true;
  }
  // After end_turn(): whether to wake resting pollers, if there are few.
  [[nodiscard]] bool wakes_few() const noexcept {
    return turns_.load(std::memory_order_relaxed) % tuning::kWakeFewEvery == tuning::kWakeFewAfter;
  }

 private:
  void begin_row(std::uint32_t turns, std::uint32_t skipped) noexcept {
    before_.store(this->turns() + skipped, std::memory_order_relaxed);
    turns_.store(turns, std::memory_order_relaxed);
  }

  std::uint32_t waits_saved_ = 0;  // turns that did not poll epoll, weighted
  std::uint32_t turns_per_wait_ = tuning::kTurnsPerWait;
  std::uint32_t found_ = 0;                // turns that found something, since timers were checked
  std::uint32_t renewed_at_ = 0;           // the turn that renewed the lease last
  std::atomic<std::uint32_t> glances_{0};  // polls in a row that only checked the signs
  std::atomic<std::uint32_t> glances_if_some_rest_{tuning::kGlancesIfSomeRest};  // before a turn
  std::atomic<std::uint32_t> turns_{0};   // in a row, without a wait or the service thread
  std::atomic<std::uint32_t> before_{0};  // what turns() had grown to before the row
};

}  // namespace udapl
