// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/callbacks.h"
#include "providers/reactor/tuning.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl {

// What is known of a PollerSet without its reactor's lock.
struct PollerCounts {
  std::atomic<std::uint32_t> awake{0};
  std::atomic<bool> some_rest{false};
  std::atomic<bool> some_when_polled{false};
  // Input comes from one poller after the other as expected, and polls wait for it.
  std::atomic<bool> in_order{false};
};

// The pollers of a reactor, by their slots: which are awake, their signs, and the order in which
// they are served. Owned by a Reactor; used under its lock.
class PollerSet {
 public:
  // A poller that is awake. Polls walk through many of them, so they are stored contiguously. The
  // place of one in the list changes when others go to rest.
  struct Awake {
    const Sign* sign;
    std::uint32_t slot;
    std::uint32_t misses;    // in a row
    std::uint32_t follower;  // the place that had input after this one the last time: a hint
  };

  explicit PollerSet(PollerCounts& counts) noexcept : counts_(counts) {}

  // A poller, which starts out resting. Returns its sign, which is clear. Throws std::bad_alloc.
  Sign& add(std::uint32_t slot);
  void remove(std::uint32_t slot) noexcept;  // does nothing if it is no poller

  // ---- awake and resting -----------------------------------------------------------------------
  // Once it is awake, wake() makes it start anew to be asked in vain.
  void wake(std::uint32_t slot) noexcept;
  void let_rest(std::uint32_t slot) noexcept;
  // Wakes all, if there are few.
  void wake_few() noexcept;
  // Has wake_for_poll() wake this one.
  void wake_when_polled(std::uint32_t slot) noexcept;
  void wake_for_poll() noexcept;
  void forget_when_polled() noexcept;

  // ---- asking one after the other --------------------------------------------------------------
  static constexpr std::size_t kAll = SIZE_MAX;
  static constexpr std::size_t kNone = SIZE_MAX - 1;
  // Finds the first poller to ask from `place` on and before `end`. Passes over those with quiet
  // signs, except the one at place `quiet` (kAll: passes over none) and those that are due to rest.
  // Returns null if there is none.
  Awake* next_to_ask(std::size_t& place, std::size_t end, std::size_t quiet) noexcept;
  // The poller in this slot, which was at that place before it was asked, has found something or
  // nothing. Returns whether it has found nothing for so long that it is due to rest.
  [[nodiscard]] bool asked(std::size_t place, std::uint32_t slot, bool found) noexcept;

  // ---- serving one that shows input ------------------------------------------------------------
  // Returns one whose sign is not quiet, or null. In the second case, `soon` may become one that is
  // expected to have input after the next one: the caller has time to prepare for it.
  //
  // A program that uses its connections in turn probably gets its next input where it came after
  // this one the last time. As long as that proves right, the next glances check only there: the
  // signs of many others would displace what the program needs from the caches.
  //
  // Otherwise round robin, so that a peer that sends without end does not keep the others waiting.
  // If many are awake, a glance checks only some: first those behind the one that was served last,
  // then a further part of the list.
  Awake* next_with_input(Awake*& soon) noexcept {
    const std::size_t count = awake_.size();
    if (served_ >= count) served_ = 0;
    std::size_t place = served_;
    if (count <= tuning::kFewPollers) return next_with_input(place, count, count);
    const std::size_t expected = awake_[served_].follower;
    if (expected < count && !awake_[expected].sign->quiet()) return &awake_[expected];
    if (expectant_ != 0) {
      const std::size_t then = expected < count ? awake_[expected].follower : count;
      if (expectant_-- == trust_ && then < count) soon = &awake_[then];
      return nullptr;
    }
    if (count <= tuning::kGlanced) return next_with_input(place, count, count);
    Awake* const found = next_with_input(place, count, tuning::kGlancedNext);
    return found != nullptr
               ? found
               : next_with_input(glanced_, count, tuning::kGlanced - tuning::kGlancedNext);
  }
  // This one is called because it has input. Returns its place.
  std::size_t serve(Awake& awake) noexcept {
    const auto place = static_cast<std::size_t>(&awake - awake_.data());
    awake.misses = 0;
    note_served(place);
    return place;
  }

 private:
  // Allocated together, because each poll reads the signs of many pollers.
  using Signs = std::array<Sign, 64>;
  struct Member {
    bool poller = false;
    bool awake = false;
    bool when_polled = false;  // in when_polled_
  };

  // Returns the first of `most` behind `place` whose sign is not quiet, or null. `count` are awake.
  Awake* next_with_input(std::size_t& place, std::size_t count, std::size_t most) noexcept {
    for (; most != 0; --most) {
      if (++place >= count) place = 0;
      if (!awake_[place].sign->quiet()) return &awake_[place];
    }
    return nullptr;
  }
  // Called if the poller at this place had input. If few are awake, no guess is made.
  void note_served(std::size_t place) noexcept {
    if (awake_.size() > tuning::kFewPollers) learn(place);
    served_ = place;
  }
  // The poller at this place has input after the one that was served last.
  void learn(std::size_t place) noexcept {
    const bool waited = expectant_ != trust_;  // no flood
    if (served_ < awake_.size()) {
      std::uint32_t& follower = awake_[served_].follower;
      trust_ = follower == place ? std::min(trust_ + 1, tuning::kTrusted) : 0;
      follower = static_cast<std::uint32_t>(place);
    }
    expectant_ = trust_;
    const bool in_order = waited && trust_ == tuning::kTrusted;
    if (in_order != counts_.in_order.load(std::memory_order_relaxed))
      counts_.in_order.store(in_order, std::memory_order_relaxed);
  }
  [[nodiscard]] Sign& sign_of(std::uint32_t slot) noexcept {
    constexpr std::size_t kSize = std::tuple_size_v<Signs>;
    return (*signs_[slot / kSize])[slot % kSize];
  }
  void count() noexcept;

  PollerCounts& counts_;
  std::vector<Awake> awake_;  // add() reserves these two
  std::vector<std::uint32_t> when_polled_;
  std::vector<Member> members_;                // by slot
  std::vector<std::unique_ptr<Signs>> signs_;  // by slot; null: they have had no poller
  std::size_t pollers_ = 0;
  std::uint32_t rest_after_ = UINT32_MAX;  // misses
  std::size_t served_ = 0;                 // the place that was served last
  std::size_t glanced_ = 0;                // if many are awake: the place checked last
  std::uint32_t trust_ = 0;                // right guesses in a row, at most kTrusted
  std::uint32_t expectant_ = 0;            // glances that still check only the guess
};

// Which pollers the turns ask: all that are awake or, if they are many, a piece of the list in each
// turn, a small one if polls know where the next input comes from; and now and then one with a
// quiet sign. Used by the thread that holds the role.
class AskOrder {
 public:
  struct Piece {
    std::size_t begin;
    std::size_t end;
    std::size_t quiet;  // as in PollerSet::next_to_ask
  };
  // `all`: some poller must be called although its sign may be quiet.
  [[nodiscard]] Piece next(std::size_t awake, bool all, bool in_order = false) noexcept {
    ++asks_;
    if (all) return {0, awake, PollerSet::kAll};
    Piece piece{0, awake, PollerSet::kNone};
    const std::size_t most = in_order ? tuning::kAskedInOrder : tuning::kAskedPerTurn;
    if (awake > most) {
      piece.begin = asked_ < awake ? asked_ : 0;
      asked_ = piece.end = std::min(piece.begin + most, awake);
    }
    if (asks_ % tuning::kTurnsPerQuietCall == 0 && piece.end != piece.begin)
      piece.quiet = piece.begin + asks_ / tuning::kTurnsPerQuietCall % (piece.end - piece.begin);
    return piece;
  }

 private:
  std::uint32_t asks_ = 0;
  std::size_t asked_ = 0;  // where the next piece begins
};

}  // namespace udapl
