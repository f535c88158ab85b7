// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: handlers whose input arrives in memory. The driver polls those that are awake; those
// that rest are woken by their descriptors and cost nothing.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/not_cancelled.h"
#include "providers/reactor/reactor.h"

namespace udapl {

namespace {

// For begin_poller.
constexpr std::size_t kAll = SIZE_MAX;
constexpr std::size_t kNone = SIZE_MAX - 1;

}  // namespace

struct Reactor::Poller {
  Handler* handler = nullptr;
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

void Reactor::count_awake() noexcept {
  awake_count_.store(static_cast<std::uint32_t>(awake_.size()), std::memory_order_seq_cst);
  some_rest_.store(awake_.size() != pollers_, std::memory_order_relaxed);
  rest_after_ = pollers_ <= kFewPollers ? UINT32_MAX : pollers_ <= kManyPollers ? kRestAfter : 1;
}

void Reactor::wake_poller(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.awake) {
    std::ranges::find(awake_, index, &Awake::slot)->misses = 0;
    return;
  }
  slot.awake = true;
  awake_.push_back({slot.handler->sign, index, 0, 0});
  count_awake();
}

void Reactor::end_awake(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (!slot.awake) return;
  slot.awake = false;
  awake_.erase(std::ranges::find(awake_, index, &Awake::slot));
  count_awake();
}

void Reactor::wake_few_pollers() noexcept {
  const ScopedLock guard(lock_);
  if (pollers_ > kFewPollers || awake_.size() == pollers_) return;
  for (std::uint32_t i = 0; i != slots_.size(); ++i) {
    if (slots_[i].handler != nullptr && slots_[i].poller) wake_poller(i);
  }
}

void Reactor::call_when_polled(Handler& poller) noexcept {
  const ScopedLock guard(lock_);
  const std::uint32_t index = poller.watch_slot.index_;
  if (index == WatchSlot::kNone || std::exchange(slots_[index].when_polled, true)) return;
  called_when_polled_.push_back(index);
  some_when_polled_.store(true, std::memory_order_relaxed);
}

void Reactor::wake_for_poll() noexcept {
  const ScopedLock guard(lock_);
  for (const std::uint32_t index : called_when_polled_) {
    slots_[index].when_polled = false;
    if (slots_[index].handler != nullptr && slots_[index].poller) wake_poller(index);
  }
  called_when_polled_.clear();
  some_when_polled_.store(false, std::memory_order_relaxed);
}

void Reactor::request_call(Handler& poller) noexcept {
  {
    const ScopedLock guard(lock_);
    const std::uint32_t index = poller.watch_slot.index_;
    if (index == WatchSlot::kNone) return;
    wake_poller(index);
  }
  call_requested_.store(true, std::memory_order_seq_cst);
  announce_work();
}

// Finds the first poller to call in the list of those awake, from `place` on and before `end`, and
// begins its call. Skips pollers with quiet signs, except the one at place `quiet` (kAll: skips
// none) and those that are due to rest. Returns false if there is none.
bool Reactor::begin_poller(std::size_t& place, std::size_t end, std::size_t quiet,
                           Poller& poller) noexcept {
  const ScopedLock guard(lock_);
  for (; place < std::min(end, awake_.size()); ++place) {
    Awake& awake = awake_[place];
    if (quiet != kAll && quiet != place && awake.misses + 1 < rest_after_ && awake.sign->quiet()) {
      ++awake.misses;
      continue;
    }
    const Slot& slot = slots_[awake.slot];
    poller = {slot.handler, awake.slot, slot.generation};
    begin_call(poller.handler);
    return true;
  }
  return false;
}

// Called after look(). Returns true if the poller has found nothing for so long that it is due to
// rest; its call has then not been ended. look() may have destroyed the poller, and other pollers
// may have been added or removed.
bool Reactor::end_poller(std::size_t place, const Poller& poller, bool found) noexcept {
  bool has_waiters = false;
  {
    const ScopedLock guard(lock_);
    if (slots_[poller.index].generation == poller.generation && place < awake_.size() &&
        awake_[place].slot == poller.index) {
      Awake& awake = awake_[place];
      awake.misses = found ? 0 : awake.misses + 1;
      if (awake.misses >= rest_after_) return true;
    }
    has_waiters = end_call_locked();
  }
  if (has_waiters) call_ended_.signal();
  return false;
}

// Returns the first of `most` pollers behind `place` whose sign is not quiet, or null.
Reactor::Awake* Reactor::next_with_input(std::size_t& place, std::size_t most) noexcept {
  for (; most != 0; --most) {
    if (++place >= awake_.size()) place = 0;
    if (!awake_[place].sign->quiet()) return &awake_[place];
  }
  return nullptr;
}

// A program that uses its connections in turn probably gets its next input where it came after this
// one the last time. As long as that proves right, the next glances check only there: the signs of
// many others would displace what the program needs from the caches.
//
// Otherwise round robin, so that a peer that sends without end does not keep the others waiting. If
// many are awake, a glance checks only some: first those behind the one that was served last, then
// a further part of the list.
Reactor::Awake* Reactor::next_with_input() noexcept {
  const std::size_t count = awake_.size();
  if (served_ >= count) served_ = 0;
  std::size_t place = served_;
  if (count <= kFewPollers) return next_with_input(place, count);
  const std::size_t expected = awake_[served_].follower;
  if (expected < count && !awake_[expected].sign->quiet()) return &awake_[expected];
  if (expectant_ != 0) {
    --expectant_;
    return nullptr;
  }
  if (count <= kGlanced) return next_with_input(place, count);
  Awake* const found = next_with_input(place, kGlancedNext);
  return found != nullptr ? found : next_with_input(glanced_, kGlanced - kGlancedNext);
}

// Called when the poller at this place has input.
void Reactor::note_served(std::size_t place) noexcept {
  if (served_ < awake_.size()) {
    std::uint32_t& follower = awake_[served_].follower;
    trust_ = follower == place ? std::min(trust_ + 1, kMostTrust) : 0;
    follower = static_cast<std::uint32_t>(place);
  }
  expectant_ = trust_;
  served_ = place;
}

// Calls a poller that has input without making a whole turn. The next poll after every kHabit-th
// call makes one, so descriptors, timers, the lease and the other pollers wait for that long at
// most.
Reactor::Glance Reactor::glance_at_pollers(bool& found) noexcept {
  if (!pollers_awake() || (role_.load(std::memory_order_relaxed) & kState) != kFree)
    return Glance::kTurnDue;
  const std::uint32_t most = some_rest_.load(std::memory_order_relaxed)
                                 ? glances_if_some_rest_.load(std::memory_order_relaxed)
                                 : kGlancesPerTurn;
  const std::uint32_t glances = glances_.load(std::memory_order_relaxed) + 1;
  glances_.store(glances < most ? glances : 0, std::memory_order_relaxed);
  if (glances >= most || has_queued() || next_turn_.load(std::memory_order_relaxed))
    return Glance::kTurnDue;
  std::size_t place = 0;
  Poller poller;
  {
    const ScopedLock guard(lock_);
    Awake* const awake = next_with_input();
    if (awake == nullptr) return Glance::kQuiet;
    const std::uint32_t turns = turns_.load(std::memory_order_relaxed) + 1;
    if (!awake->sign->shows_input() || turns <= kHabit || !claim()) return Glance::kTurnDue;
    turns_.store(turns, std::memory_order_relaxed);
    if (turns % kHabit == 0) glances_.store(kGlancesPerTurn, std::memory_order_relaxed);
    awake->misses = 0;
    place = static_cast<std::size_t>(awake - awake_.data());
    note_served(place);
    const Slot& slot = slots_[awake->slot];
    poller = {slot.handler, awake->slot, slot.generation};
    begin_call(poller.handler);
  }
  found = serve(place, poller);
  return Glance::kServed;
}

// Calls the poller, which shows input, and releases the role. Returns true if it had input.
// REQUIRES: the caller holds the role and has begun the call.
bool Reactor::serve(std::size_t place, const Poller& poller) noexcept {
  const bool found = poller.handler->look() == Handler::Look::kFound;
  ++found_;
  ++waits_saved_;
  if (!found) [[unlikely]] {
    const NotCancelled scope;
    if (end_poller(place, poller, false)) {
      let_rest(poller);
      end_call();
    }
    release();
    return false;
  }
  // The same as end_call(), without the lock: see wait_while_running().
  running_.store(nullptr, std::memory_order_release);
  release();
  if (quiescers_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    call_ended_.signal();
  return true;
}

// Puts the poller to rest, unless it has input. REQUIRES: its call has begun. A concurrent
// request_call() finds it resting.
void Reactor::let_rest(const Poller& poller) noexcept {
  {
    const ScopedLock guard(lock_);
    if (slots_[poller.index].generation != poller.generation) return;
    end_awake(poller.index);
  }
  if (poller.handler->rest()) return;
  const ScopedLock guard(lock_);
  if (slots_[poller.index].generation == poller.generation) wake_poller(poller.index);
}

bool Reactor::ask_pollers() noexcept {
  const bool requested = call_requested_.load(std::memory_order_relaxed) &&
                         call_requested_.exchange(false, std::memory_order_seq_cst);
  ++asks_;
  const std::size_t count = awake_count_.load(std::memory_order_relaxed);
  std::size_t place = 0;
  std::size_t end = count;
  if (!requested && count > kAskedPerTurn) {  // a piece of the list in each turn
    place = asked_ < count ? asked_ : 0;
    asked_ = end = std::min(place + kAskedPerTurn, count);
  }
  std::size_t quiet = kNone;
  if (requested)
    quiet = kAll;
  else if (asks_ % kTurnsPerQuietCall == 0 && end != place)
    quiet = place + asks_ / kTurnsPerQuietCall % (end - place);
  bool any = false;
  Poller poller;
  // Each at most once: if a poller is removed, the one that moves to its place waits for the next
  // turn.
  for (; begin_poller(place, end, quiet, poller); ++place) {
    const bool found = poller.handler->look() == Handler::Look::kFound;
    any |= found;
    if (!end_poller(place, poller, found)) continue;
    let_rest(poller);
    end_call();
  }
  return any;
}

void Reactor::let_pollers_rest() noexcept {
  Poller poller;
  // Those that stay awake move to the end of the list.
  std::size_t first = 0;
  for (std::uint32_t left = awake_count_.load(std::memory_order_relaxed);
       left > 0 && begin_poller(first, kAll, kAll, poller); --left) {
    let_rest(poller);
    end_call();
  }
}

}  // namespace udapl
