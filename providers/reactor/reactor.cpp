// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/reactor.h"

#include <cerrno>
#include <new>

#include "common/call_probe.h"
#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"

namespace udapl {

// ---- descriptors -------------------------------------------------------------------------------

Status Reactor::watch(int fd, std::uint32_t events, Handler& handler, Kind kind) noexcept {
  WatchTable::Name name = WatchTable::kNoName;
  {
    const ScopedLock guard(lock_);
    std::uint32_t slot = WatchTable::kNone;
    try {
      slot = table_.reserve();
      if (kind == Kind::kPoller) handler.sign = &pollers_.add(slot);
    } catch (const std::bad_alloc&) {
      return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    table_.add(handler, fd, kind == Kind::kPoller);
    name = table_.name_of(slot);
  }
  if (events_.add(fd, events, name)) return Status();
  UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), "cannot watch descriptor %d: %s", fd,
                ErrnoText(errno).c_str());
  forget(handler);
  return failure(DAT_INSUFFICIENT_RESOURCES);
}

void Reactor::rewatch(int fd, std::uint32_t events, Handler& handler) noexcept {
  WatchTable::Name name = WatchTable::kNoName;
  {
    const ScopedLock guard(lock_);
    const std::uint32_t slot = WatchTable::index_of(handler);
    if (slot == WatchTable::kNone) return;
    name = table_.name_of(slot);
  }
  events_.modify(fd, events, name);
}

void Reactor::unwatch(int fd, Handler& handler) noexcept {
  if (forget(handler)) events_.remove(fd);
}

// Events that epoll_wait has returned already carry the old name and are dropped.
bool Reactor::forget(Handler& handler) noexcept {
  const ScopedLock guard(lock_);
  const std::uint32_t slot = WatchTable::index_of(handler);
  if (slot == WatchTable::kNone) return false;
  pollers_.remove(slot);
  table_.remove(handler);
  return true;
}

void Reactor::adopt(std::unique_ptr<Adopted> object) noexcept {
  const ScopedLock guard(lock_);
  adopted_.push_back(*object.release());
}

void Reactor::dismiss(Adopted& object) noexcept {
  {
    const ScopedLock guard(lock_);
    adopted_.erase(adopted_.iterator_to(object));
  }
  delete &object;
}

// ---- driving -----------------------------------------------------------------------------------

// A handler or call concerns its own object, not that of the DAT call in which the driving thread
// is: trace records must not name the latter.
void Reactor::dispatch(const epoll_event* events, int count) noexcept {
  const trace::About no_object(nullptr);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[i].data.u64;
    if (data == EventSet::kKick) {
      if (direct_.fd >= 0) {
        events_.take_kick();
        role_.kick_was_taken();
      }
      continue;
    }
    Handler* handler = nullptr;
    {
      const ScopedLock guard(lock_);
      const WatchTable::Slot* const slot = table_.find(data);
      if (slot == nullptr) continue;
      handler = slot->handler;
      if (slot->poller) pollers_.wake_for_input(WatchTable::index_of(data));
      running_.begin(handler, guard);
    }
    handler->on_ready(events[i].events);
    running_.end();
  }
  if (count < tuning::kEventsPerTurn) count_look();
}

// Returns the time that it has read, if none was due.
Deadline Reactor::fire_timers() noexcept {
  if (next_turn_.load(std::memory_order_relaxed))
    next_turn_.store(false, std::memory_order_seq_cst);
  const Deadline first = queued_.first_timer();
  if (!first) return std::nullopt;
  const Clock::time_point now = Clock::now();
  if (now < *first) return now;
  const trace::About no_object(nullptr);
  while (true) {
    Call call{};
    {
      const ScopedLock guard(lock_);
      const Timer* const timer = calls_.take_due(now);
      if (timer == nullptr) return std::nullopt;
      call = timer->call_;
      running_.begin(timer, guard);
    }
    about_to_call(Decided::kTimer, call.object);
    call.function(call.object);
    running_.end();
  }
}

// Runs as many calls as are queued now. Calls that these post run in the next turn, after the
// descriptors.
bool Reactor::run_all_deferred() noexcept {
  bool found = false;
  const trace::About no_object(nullptr);
  for (auto left = queued_.deferred.load(std::memory_order_seq_cst); left > 0; --left) {
    Call call{};
    {
      const ScopedLock guard(lock_);
      const Deferred* const first = calls_.take_deferred();
      if (first == nullptr) break;
      call = first->call_;
      running_.begin(first, guard);
    }
    call.function(call.object);
    running_.end();
    found = true;
  }
  return found;
}

// Polls epoll for a driving thread that has too much work to sleep, and so would not see events.
void Reactor::look_around() noexcept {
  end_direct();
  epoll_event events[tuning::kEventsPerTurn];
  dispatch(events, events_.wait(events, tuning::kEventsPerTurn, Clock::now()));
  if (pollers_awake()) ask_pollers();
  // Unless the application polls, no thread would call awake pollers until the lease ends.
  if (!turn_policy_.habitual() && pollers_awake()) let_pollers_rest();
}

bool Reactor::look() noexcept {
  Handler* const handler = begin_look();
  if (handler == nullptr) return false;
  const Handler::Look result = handler->look();
  running_.end();
  return looked(result);
}

Handler* Reactor::begin_look() noexcept {
  const ScopedLock guard(lock_);
  const WatchTable::Slot* const slot = table_.find(hot_.name());
  // ask_pollers() calls pollers, and only awake ones.
  if (slot == nullptr || slot->poller) {
    hot_.forget();
    return nullptr;
  }
  hot_.look_ahead(table_);
  running_.begin(slot->handler, guard);
  return slot->handler;
}

bool Reactor::looked(Handler::Look result) noexcept {
  if (result == Handler::Look::kNeverLooks)
    hot_.forget();
  else
    hot_.looked(result == Handler::Look::kFound, result == Handler::Look::kQuiet);
  return result == Handler::Look::kFound;
}

bool Reactor::wait_or_look() noexcept {
  const bool found = pollers_awake() && ask_pollers();
  if (pollers_awake() && !hot_.hot() && !turn_policy_.wait_due(found, some_pollers_rest()))
    return found;
  if (hot_.hot() && !poll_policy_.contended() && hot_.look_due()) return look() || found;
  if (direct_.fd >= 0) [[unlikely]]
    end_direct();
  // The number may have been reused for another descriptor.
  if (events_.lost(std::memory_order_relaxed)) [[unlikely]]
    return found;
  epoll_event events[tuning::kEventsPerTurn];
  int count = events_.look(events, tuning::kEventsPerTurn);
  if (count == 0) {
    count_look();
    turn_policy_.reported_nothing();
    return found;
  }
  turn_policy_.reported();
  if (count < 0) [[unlikely]]
    count = events_.after_failure(events, tuning::kEventsPerTurn, errno);
  if (count <= 0) return found;
  if (count != 1 || events[0].data.u64 == EventSet::kKick) {
    hot_.forget();
  } else {
    const ScopedLock guard(lock_);
    hot_.ready(events[0].data.u64, table_);
  }
  dispatch(events, count);
  return true;
}

bool Reactor::turn() noexcept {
  const NotCancelled scope;
  bool found = run_deferred();
  found |= wait_or_look();
  Deadline now;
  if (turn_policy_.timers_due(found, next_turn_.load(std::memory_order_relaxed)))
    now = fire_timers();
  found |= run_deferred();
  if (turn_policy_.end_turn(found)) {
    clear_unattended();
    if (found || !now) now = Clock::now();
    lease_.renew_for_poll(*now, poll_policy_.contended(),
                          poller_counts_.awake.load(std::memory_order_relaxed));
    note_driven();
    if (drives_others()) [[unlikely]]
      leave_unused_others(*now);
  }
  return found;
}

// A turn of a thread that may not come back: pollers stay awake only if the application polls
// habitually.
bool Reactor::lone_turn() noexcept {
  wake_for_poll();
  const bool found = turn();
  const bool habit = turn_policy_.habitual();
  if (turn_policy_.wakes_few()) {
    const ScopedLock guard(lock_);
    pollers_.wake_few();
  }
  if (!habit && pollers_awake()) let_pollers_rest();
  release();
  // A follower may have found the role taken, and this thread may not drive again.
  if (!habit) nominate();
  // The guard does not notice polls while no descriptor wakes it. It is woken, so that it parks and
  // polled() becomes true.
  if (habit) wake_guard();
  return found;
}

void Reactor::progress() noexcept {
  if (role_.claim()) lone_turn();
}

}  // namespace udapl
