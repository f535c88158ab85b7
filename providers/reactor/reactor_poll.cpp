// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: what a consumer's polls do.
#include "providers/reactor/reactor.h"

namespace udapl {

bool Reactor::poll_turn(std::uint32_t poll) noexcept {
  if (!poll_policy_.among_takes(poll)) lease_.end_takes();
  bool found = false;
  bool turned = false;
  bool looked = false;
  wake_for_poll();
  const Glance glance = glance_at_pollers(found);
  if (glance == Glance::kServed) {
    turned = true;
  } else if (glance == Glance::kTurnDue) {
    if (leads_asleep()) [[unlikely]]
      give_up_sleep();
    if (role_.claim()) {
      poll_policy_.unblocked();
      if (look_suffices()) {
        looked = true;
        turned = found = lone_look();
      } else {
        found = lone_turn();
        turned = true;
      }
    } else if (driven_here()) {
      return false;
    } else {
      ask_for_role();
    }
  }
  if (found) {
    poll_policy_.found();
    return true;
  }
  write_ahead_.fetch();
  poll_policy_.found_nothing(poll, looked || glance == Glance::kQuiet);
  if (!poll_policy_.yield_due(poll)) return turned;
  poll_policy_.yield(poll);
  return true;  // other threads have run, and may have found something
}

bool Reactor::look_suffices() const noexcept {
  return hot_.hot() && hot_.look_suffices() && !pollers_awake() && turn_policy_.habitual() &&
         !poll_policy_.contended() && direct_.fd < 0 && !has_queued() &&
         !next_turn_.load(std::memory_order_relaxed);
}

// If the look finds something, it counts as a turn, like that of a poller that is served.
bool Reactor::lone_look() noexcept {
  static_cast<void>(hot_.look_due());
  Handler* const handler = begin_look();
  const bool found = handler != nullptr && looked(handler->look());
  if (found)
    turn_policy_.begin_serving();
  else if (hot_.soon() != WatchTable::kNoName)
    prepare_soon();
  running_.end_with([this] { release(); });
  return found;
}

// Calls prepare() of the handler that is expected after the hot one. Its call takes the place of
// the one that has ended.
void Reactor::prepare_soon() noexcept {
  Handler* handler = nullptr;
  bool has_waiters = false;
  {
    const ScopedLock guard(lock_);
    has_waiters = running_.end(guard);
    const WatchTable::Slot* const slot = table_.find(hot_.soon());
    if (slot != nullptr && !slot->poller) {
      handler = slot->handler;
      running_.begin(handler, guard);
    }
  }
  if (has_waiters) running_.wake_waiters();
  if (handler != nullptr) handler->prepare();
}

void Reactor::found_many() noexcept {
  const Clock::time_point now = Clock::now();
  if (now - poll_policy_.took_many(now) < Lease::kAfterTakes) lease_.extend_for_takes(now);
}

// Makes a turn that counts as habitual: it renews the lease, and the guard parks.
void Reactor::start_polling() noexcept {
  if (!role_.claim()) return;
  turn_policy_.expect_habit();
  lone_turn();
}

// If one thread waits and another one polls, the polling thread should drive, as it is awake: the
// leader makes way, and leads again when the polls end.
void Reactor::ask_for_role() noexcept {
  if (!role_.leader_sleeps() || !poll_policy_.blocked()) return;
  polls_drive_.store(true, std::memory_order_seq_cst);
  wake_sleeper();
}

// A number that changes when a thread of the application waits, polls, or serves a poller.
std::uint32_t Reactor::uses() const noexcept {
  return looks() + turn_policy_.turns() + poll_policy_.polls();
}

bool Reactor::unused(Clock::time_point now) noexcept {
  return !lease_use_.changed(uses()) && lease_use_.ended(now) && !lease_.extended(now);
}

// Runs no queued calls: the service thread does. The role keeps the reactor from being destroyed.
void Reactor::end_unused_lease() noexcept {
  give_up_left_sleep();
  if (drives_others()) leave_unused_others(Clock::now());
  if (!lease_.parked() || !role_.free(std::memory_order_relaxed)) return;
  if (unattended_.load(std::memory_order_relaxed)) return;  // there is no lease
  if (lease_use_.changed(uses())) return;
  const Clock::time_point now = Clock::now();
  if (!unused(now) || !role_.claim()) return;
  lease_.end();
  role_.release();
}

}  // namespace udapl
