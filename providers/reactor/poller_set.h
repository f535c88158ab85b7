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
#include <utility>
#include <vector>

namespace udapl {

// The state of a PollerSet that can be read without the reactor's lock.
struct PollerCounts {
  std::atomic<std::uint32_t> awake{0};
  std::atomic<bool> some_rest{false};
  std::atomic<bool> some_when_polled{false};
  // The pollers have input in the expected order, and polls have to wait for it.
  std::atomic<bool> in_order{false};
};

// The pollers of a reactor, by their slots: which are awake, their signs, and the order in which
// they are served. Owned by a Reactor; used under its lock.
class PollerSet {
  static constexpr std::uint32_t kRests = UINT32_MAX;

 public:
  // A poller. In one cache line, because a poll reads many of them.
  struct alignas(64) Member {
    Sign sign;
    Member* follower = nullptr;  // had input next after this one the previous time: only a hint
    std::uint32_t slot = 0;
    std::uint32_t place = kRests;  // its index in awake_; changes when others go to rest
    std::uint32_t misses = 0;      // in a row
    bool poller = false;           // otherwise the slot is not used
    bool when_polled = false;      // in when_polled_
  };
  static_assert(sizeof(void*) != 8 || sizeof(Member) == 64);

  explicit PollerSet(PollerCounts& counts) noexcept : counts_(counts) {}

  // Adds a poller, which rests at first. Returns its sign, which is clear. Throws std::bad_alloc.
  Sign& add(std::uint32_t slot);
  void remove(std::uint32_t slot) noexcept;  // does nothing if the slot has no poller

  // ---- awake and resting -----------------------------------------------------------------------
  // Wakes a poller. If it is awake already, resets the count of its misses.
  void wake(std::uint32_t slot) noexcept;
  // Wakes a poller whose descriptor has announced input.
  void wake_for_input(std::uint32_t slot) noexcept;
  void let_rest(std::uint32_t slot) noexcept;
  // Wakes all pollers, if there are few.
  void wake_few() noexcept;
  // The next wake_for_poll() wakes this poller.
  void wake_when_polled(std::uint32_t slot) noexcept;
  void wake_for_poll() noexcept;
  void forget_when_polled() noexcept;

  // ---- asking one after the other --------------------------------------------------------------
  static constexpr std::size_t kAll = SIZE_MAX;
  static constexpr std::size_t kNone = SIZE_MAX - 1;
  // Finds the first poller to ask from `place` on and before `end`; null if there is none. Passes
  // over pollers with quiet signs, but not over those that are due to rest, nor over the one at
  // place `quiet`. With kAll, passes over none.
  Member* next_to_ask(std::size_t& place, std::size_t end, std::size_t quiet) noexcept;
  // Called after the poller in this slot, which was at `place` before, was asked. `found`: it had
  // input. Returns whether it has found nothing for so long that it is due to rest.
  [[nodiscard]] bool asked(std::size_t place, std::uint32_t slot, bool found) noexcept;

  // ---- serving one that shows input ------------------------------------------------------------
  // Returns a poller whose sign is not quiet, or null. If null, `soon` may be set to the poller
  // that is expected to have input after the next one: the caller has time to prepare for it.
  //
  // In a program that uses its connections in turn, the next input probably arrives at the poller
  // that followed the last one the previous time. As long as this guess proves right, glances check
  // only that poller: to read the signs of many others would displace the program's data from the
  // caches.
  //
  // Otherwise round robin, so that a peer that sends without end does not keep the others waiting.
  // If many are awake, a glance checks only some: first those after the one that was served last,
  // then a further part of the list.
  Member* next_with_input(Member*& soon) noexcept {
    const std::size_t count = awake_.size();
    if (served_ >= count) served_ = 0;
    std::size_t place = served_;
    if (count <= tuning::kFewPollers) return next_with_input(place, count, count);
    Member* const expected = last_ != nullptr ? follower(*last_) : nullptr;
    if (expected != nullptr && !expected->sign.quiet()) return expected;
    if (expectant_ != 0) {
      if (expectant_-- == trust_ && expected != nullptr) soon = follower(*expected);
      return nullptr;
    }
    if (count <= tuning::kGlanced) return next_with_input(place, count, count);
    Member* const found = next_with_input(place, count, tuning::kGlancedNext);
    return found != nullptr
               ? found
               : next_with_input(glanced_, count, tuning::kGlanced - tuning::kGlancedNext);
  }
  // Called when a poller is about to be called because it shows input. Returns its place.
  std::size_t serve(Member& member) noexcept {
    member.misses = 0;
    note_served(member);
    return member.place;
  }

 private:
  using Block = std::array<Member, 64>;

  // Returns the first of the `most` pollers after `place` whose sign is not quiet, or null. `count`
  // are awake.
  Member* next_with_input(std::size_t& place, std::size_t count, std::size_t most) noexcept {
    for (; most != 0; --most) {
      if (++place >= count) place = 0;
      if (!awake_[place]->sign.quiet()) return awake_[place];
    }
    return nullptr;
  }
  // Called when this poller, which is awake, has input. Few pollers need no guess.
  void note_served(Member& member) noexcept {
    if (pollers_ > tuning::kFewPollers) learn(member);
    last_ = &member;
    served_ = member.place;
  }
  // Records that this poller has input after the one that was served last.
  void learn(Member& member) noexcept {
    const bool waited = expectant_ != trust_;  // glances found nothing before this input
    bool right = false;
    if (last_ != nullptr) right = std::exchange(last_->follower, &member) == &member;
    trust_ = right ? std::min(trust_ + 1, tuning::kTrusted) : 0;
    expectant_ = trust_;
    const bool in_order = waited && trust_ == tuning::kTrusted;
    if (in_order != counts_.in_order.load(std::memory_order_relaxed))
      counts_.in_order.store(in_order, std::memory_order_relaxed);
    const bool was_known = order_known();
    order_ = right ? std::min(order_ + 1, tuning::kMostOrder)
                   : order_ - std::min(order_, tuning::kOrderPerWrongGuess);
    const bool crowd_ends = crowded_ != 0 && --crowded_ == 0;
    if (crowd_ends || order_known() != was_known) [[unlikely]]
      count();
  }
  // Whether most guesses are right.
  [[nodiscard]] bool order_known() const noexcept { return order_ >= tuning::kKnownOrder; }
  // The poller that followed `member` the previous time; null if unknown, or if that one rests.
  [[nodiscard]] static Member* follower(const Member& member) noexcept {
    Member* const next = member.follower;
    return next != nullptr && next->place != kRests ? next : nullptr;
  }
  [[nodiscard]] Member& at(std::uint32_t slot) const noexcept {
    constexpr std::size_t kSize = std::tuple_size_v<Block>;
    return (*members_[slot / kSize])[slot % kSize];
  }
  [[nodiscard]] bool has(std::uint32_t slot) const noexcept {
    const std::size_t block = slot / std::tuple_size_v<Block>;
    return block < members_.size() && members_[block] != nullptr && at(slot).poller;
  }
  void count() noexcept;

  PollerCounts& counts_;
  std::vector<Member*> awake_;  // add() reserves these two
  std::vector<std::uint32_t> when_polled_;
  std::vector<std::unique_ptr<Block>> members_;  // by slot, never freed; null: no poller so far
  std::size_t pollers_ = 0;
  std::uint32_t rest_after_ = UINT32_MAX;  // a poller with this many misses is due to rest
  Member* last_ = nullptr;                 // the one that was served last; it may rest
  std::size_t served_ = 0;                 // its place at that time
  std::size_t glanced_ = 0;                // if many are awake: the place checked last
  std::uint32_t trust_ = 0;                // right guesses in a row, at most kTrusted
  std::uint32_t expectant_ = 0;            // glances that still check only the guess
  std::uint32_t order_ = 0;                // score of the guesses: see tuning::kKnownOrder
  std::uint32_t crowded_ = 0;              // during this many finds, only kGlanced stay awake
};

}  // namespace udapl
