// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: handlers whose input arrives in memory. The driving thread polls those that are awake;
// those that rest are woken by their descriptors and cost nothing.
#include <cstdint>

#include "common/not_cancelled.h"
#include "providers/reactor/reactor.h"

namespace udapl {

// A poller that is being called; the call may destroy it.
struct Reactor::Poller {
  Handler* handler = nullptr;
  WatchTable::Name name = WatchTable::kNoName;
};

void Reactor::call_when_polled(Handler& poller) noexcept {
  const ScopedLock guard(lock_);
  const std::uint32_t slot = WatchTable::index_of(poller);
  if (slot != WatchTable::kNone) pollers_.wake_when_polled(slot);
}

void Reactor::request_call(Handler& poller) noexcept {
  {
    const ScopedLock guard(lock_);
    const std::uint32_t slot = WatchTable::index_of(poller);
    if (slot == WatchTable::kNone) return;
    pollers_.wake(slot);
  }
  call_requested_.store(true, std::memory_order_seq_cst);
  announce_work();
}

Reactor::Poller Reactor::begin_call(const PollerSet::Member& awake,
                                    const RunningCall::Held& guard) noexcept {
  Handler* const handler = table_[awake.slot].handler;
  running_.begin(handler, guard);
  return {handler, table_.name_of(awake.slot)};
}

// Finds the next poller to ask, as PollerSet does, and begins its call. Returns false if there is
// none.
bool Reactor::begin_poller(std::size_t& place, std::size_t end, std::size_t quiet,
                           Poller& poller) noexcept {
  const ScopedLock guard(lock_);
  const PollerSet::Member* const awake = pollers_.next_to_ask(place, end, quiet);
  if (awake == nullptr) return false;
  poller = begin_call(*awake, guard);
  return true;
}

// Called after look(). Returns true if the poller has found nothing for so long that it is due to
// rest; otherwise ends its call. look() may have destroyed the poller, and other pollers may have
// been added or removed.
bool Reactor::end_poller(std::size_t place, const Poller& poller, bool found) noexcept {
  bool has_waiters = false;
  {
    const ScopedLock guard(lock_);
    if (table_.find(poller.name) != nullptr &&
        pollers_.asked(place, WatchTable::index_of(poller.name), found))
      return true;
    has_waiters = running_.end(guard);
  }
  if (has_waiters) running_.wake_waiters();
  return false;
}

// Calls a poller that has input without making a whole turn.
Reactor::Glance Reactor::glance_at_pollers(bool& found) noexcept {
  if (!pollers_awake() || !role_.free(std::memory_order_relaxed)) return Glance::kTurnDue;
  if (turn_policy_.turn_due(some_pollers_rest()) || has_queued() ||
      next_turn_.load(std::memory_order_relaxed))
    return Glance::kTurnDue;
  std::size_t place = 0;
  Poller poller;
  PollerSet::Member* soon = nullptr;
  {
    const ScopedLock guard(lock_);
    PollerSet::Member* const awake = pollers_.next_with_input(soon);
    if (awake == nullptr) {
      if (soon == nullptr || !role_.claim()) return Glance::kQuiet;
      poller = begin_call(*soon, guard);
    } else {
      if (!awake->sign.shows_input() || !turn_policy_.habitual() || !role_.claim())
        return Glance::kTurnDue;
      turn_policy_.begin_serving();
      place = pollers_.serve(*awake);
      poller = begin_call(*awake, guard);
    }
  }
  if (soon != nullptr) [[unlikely]] {
    poller.handler->prepare();
    running_.end_with([this] { release(); });
    return Glance::kQuiet;
  }
  found = serve_poller(place, poller);
  return Glance::kServed;
}

// Calls the poller, which shows input, and releases the role. Returns true if it had input.
// REQUIRES: the caller holds the role and has begun the call.
bool Reactor::serve_poller(std::size_t place, const Poller& poller) noexcept {
  const bool found = poller.handler->look() == Handler::Look::kFound;
  turn_policy_.served();
  if (!found) [[unlikely]] {
    const NotCancelled scope;
    if (end_poller(place, poller, false)) {
      let_rest(poller);
      running_.end();
    }
    release();
    return false;
  }
  running_.end_with([this] { release(); });
  return true;
}

// Puts the poller to rest, unless it has input. REQUIRES: its call has begun. A concurrent
// request_call() finds it resting.
void Reactor::let_rest(const Poller& poller) noexcept {
  const std::uint32_t slot = WatchTable::index_of(poller.name);
  {
    const ScopedLock guard(lock_);
    if (table_.find(poller.name) == nullptr) return;
    pollers_.let_rest(slot);
  }
  if (poller.handler->rest()) return;
  const ScopedLock guard(lock_);
  if (table_.find(poller.name) != nullptr) pollers_.wake(slot);
}

bool Reactor::ask_pollers() noexcept {
  const bool requested = call_requested_.load(std::memory_order_relaxed) &&
                         call_requested_.exchange(false, std::memory_order_seq_cst);
  const bool in_order = poller_counts_.in_order.load(std::memory_order_relaxed);
  const auto order = !in_order                  ? AskOrder::Order::kUnknown
                     : poll_policy_.polls() > 1 ? AskOrder::Order::kWaiting
                                                : AskOrder::Order::kKnown;
  AskOrder::Piece piece =
      ask_order_.next(poller_counts_.awake.load(std::memory_order_relaxed), requested, order);
  bool any = false;
  Poller poller;
  // Asks each poller at most once. If one is removed, the one that moves to its place is asked in
  // the next turn.
  for (; begin_poller(piece.begin, piece.end, piece.quiet, poller); ++piece.begin) {
    const bool found = poller.handler->look() == Handler::Look::kFound;
    any |= found;
    if (!end_poller(piece.begin, poller, found)) continue;
    let_rest(poller);
    running_.end();
  }
  return any;
}

void Reactor::let_pollers_rest() noexcept {
  Poller poller;
  // Backwards: when a poller goes to rest, the last one, which was visited before, moves to its
  // place.
  for (std::size_t place = poller_counts_.awake.load(std::memory_order_relaxed); place-- != 0;) {
    std::size_t at = place;
    if (!begin_poller(at, place + 1, PollerSet::kAll, poller)) continue;
    let_rest(poller);
    running_.end();
  }
}

}  // namespace udapl
