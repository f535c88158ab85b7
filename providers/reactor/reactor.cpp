// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/reactor.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include <unistd.h>

#include "common/call_probe.h"
#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"

namespace udapl {

namespace {

std::uint64_t event_data(std::uint32_t slot, std::uint32_t generation) noexcept {
  return std::uint64_t{generation} << 32 | slot;
}

}  // namespace

// ---- descriptors -------------------------------------------------------------------------------

Status Reactor::watch(int fd, std::uint32_t events, Handler& handler, Kind kind) noexcept {
  epoll_event event{};
  event.events = events;
  std::uint32_t index = WatchSlot::kNone;
  {
    const ScopedLock guard(lock_);
    try {
      if (free_slot_ == WatchSlot::kNone) {
        slots_.emplace_back();
        awake_.reserve(slots_.capacity());
        called_when_polled_.reserve(slots_.capacity());
        free_slot_ = static_cast<std::uint32_t>(slots_.size() - 1);
      }
      if (kind == Kind::kPoller) handler.sign = &sign_of(free_slot_);
    } catch (const std::bad_alloc&) {
      return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    index = free_slot_;
    Slot& slot = slots_[index];
    free_slot_ = slot.next_free;
    slot.handler = &handler;
    slot.fd = handler.watch_slot.only_reads ? fd : -1;
    slot.poller = kind == Kind::kPoller;
    if (slot.poller) {
      ++pollers_;
      count_awake();
    }
    handler.watch_slot.index_ = index;
    event.data.u64 = event_data(index, slot.generation);
  }
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return Status();
  UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), "cannot watch descriptor %d: %s", fd,
                ErrnoText(errno).c_str());
  forget(handler);
  return failure(DAT_INSUFFICIENT_RESOURCES);
}

// May throw std::bad_alloc.
Sign& Reactor::sign_of(std::uint32_t slot) {
  const std::size_t size = std::tuple_size_v<Signs>;
  const std::size_t place = slot / size;
  if (place >= signs_.size()) signs_.resize(place + 1);
  if (signs_[place] == nullptr) signs_[place] = std::make_unique<Signs>();
  Sign& sign = (*signs_[place])[slot % size];
  sign.clear();
  return sign;
}

void Reactor::rewatch(int fd, std::uint32_t events, Handler& handler) noexcept {
  epoll_event event{};
  event.events = events;
  {
    const ScopedLock guard(lock_);
    const std::uint32_t index = handler.watch_slot.index_;
    if (index == WatchSlot::kNone) return;
    event.data.u64 = event_data(index, slots_[index].generation);
  }
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Reactor::unwatch(int fd, Handler& handler) noexcept {
  if (!forget(handler)) return;
  epoll_event unused{};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
}

// Events that epoll_wait has returned already carry the old generation and are dropped.
bool Reactor::forget(Handler& handler) noexcept {
  const ScopedLock guard(lock_);
  const std::uint32_t index = handler.watch_slot.index_;
  if (index == WatchSlot::kNone) return false;
  handler.watch_slot.index_ = WatchSlot::kNone;
  end_awake(index);
  Slot& slot = slots_[index];
  if (slot.poller) {
    --pollers_;
    count_awake();
  }
  slot.handler = nullptr;
  ++slot.generation;
  slot.next_free = free_slot_;
  free_slot_ = index;
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

void Reactor::dispatch(const epoll_event* events, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[i].data.u64;
    if (data == kKickData) {
      // The kick may be for the guard, which would sleep on if it were consumed here.
      if ((role_.load(std::memory_order_relaxed) & kGuarded) != 0) continue;
      std::uint64_t kicks = 0;
      [[maybe_unused]] const ssize_t got = ::read(kick_.get(), &kicks, sizeof kicks);
      continue;
    }
    Handler* handler = nullptr;
    {
      const ScopedLock guard(lock_);
      const auto index = static_cast<std::uint32_t>(data);
      if (index >= slots_.size()) continue;  // a descriptor of the program's, see lose_descriptors
      const Slot& slot = slots_[index];
      if (slot.handler == nullptr || slot.generation != data >> 32) continue;
      handler = slot.handler;
      if (slot.poller) wake_poller(index);
      begin_call(handler);
    }
    handler->on_ready(events[i].events);
    end_call();
  }
  if (count < kEventsPerTurn) ++looks_;
}

Deadline Reactor::next_timer() const noexcept {
  const Clock::rep first = first_timer_.load(std::memory_order_seq_cst);
  if (first == kNoTimer) return std::nullopt;
  return Clock::time_point(Clock::duration(first));
}

void Reactor::note_first_timer() noexcept {
  const Clock::rep first =
      timers_.empty() ? kNoTimer : timers_.begin()->when_.time_since_epoch().count();
  first_timer_.store(first, std::memory_order_seq_cst);
}

void Reactor::fire_timers() noexcept {
  if (next_turn_.load(std::memory_order_relaxed))
    next_turn_.store(false, std::memory_order_seq_cst);
  if (!next_timer()) return;
  const Clock::time_point now = Clock::now();
  while (true) {
    Call call{};
    {
      const ScopedLock guard(lock_);
      const auto first = timers_.begin();
      if (first == timers_.end() || first->when_ > now) return;
      call = first->call_;
      begin_call(&*first);
      timers_.erase(first);
      note_first_timer();
    }
    about_to_call(Decided::kTimer, call.object);
    call.function(call.object);
    end_call();
  }
}

// Runs as many as are queued now: calls that they post themselves run next turn, after the sockets.
bool Reactor::run_all_deferred() noexcept {
  bool found = false;
  for (auto left = deferred_count_.load(std::memory_order_seq_cst); left > 0; --left) {
    Call call{};
    {
      const ScopedLock guard(lock_);
      if (deferred_.empty()) break;
      Deferred& first = deferred_.front();
      call = first.call_;
      begin_call(&first);
      deferred_.pop_front();
      deferred_count_.fetch_sub(1, std::memory_order_relaxed);
    }
    call.function(call.object);
    end_call();
    found = true;
  }
  return found;
}

// For a driver that has too much work to sleep, and so would not see the descriptors.
void Reactor::look_around() noexcept {
  end_direct();
  epoll_event events[kEventsPerTurn];
  dispatch(events, wait(events, kEventsPerTurn, Clock::now()));
  if (pollers_awake()) ask_pollers();
  // Unless the application polls, no thread calls them until the lease ends.
  if (turns_.load(std::memory_order_relaxed) < kHabit && pollers_awake()) let_pollers_rest();
}

bool Reactor::look() noexcept {
  Handler* handler = nullptr;
  {
    const ScopedLock guard(lock_);
    const Slot& slot = slots_[static_cast<std::uint32_t>(habit_.data)];
    // Pollers are called by ask_pollers(), and only while awake.
    if (slot.handler == nullptr || slot.poller || slot.generation != habit_.data >> 32) {
      habit_ = Habit{};
      return false;
    }
    handler = slot.handler;
    begin_call(handler);
  }
  const Handler::Look result = handler->look();
  end_call();
  habit_.misses = result == Handler::Look::kFound ? 0 : habit_.misses + 1;
  if (result == Handler::Look::kNeverLooks || habit_.misses == kColdAfter) habit_ = Habit{};
  return result == Handler::Look::kFound;
}

bool Reactor::wait_or_look() noexcept {
  bool found = pollers_awake() && ask_pollers();
  if (pollers_awake() && habit_.times < kHot) {
    const std::uint32_t turns = some_rest_.load(std::memory_order_relaxed) ? 1 : turns_per_wait_;
    waits_saved_ += found ? 1 : kFoundPerWait / turns;
    if (waits_saved_ < kFoundPerWait) return found;
    waits_saved_ = 0;
  }
  if (habit_.times >= kHot && !contended_.load(std::memory_order_relaxed) &&
      ++habit_.looks % kLooksPerWait != 0)
    return look() || found;
  if (direct_.fd >= 0) [[unlikely]]
    end_direct();
  if (lost_.load(std::memory_order_relaxed)) [[unlikely]]  // the number may be another descriptor's
    return found;
  epoll_event events[kEventsPerTurn];
  int count = ::epoll_wait(epoll_.get(), events, kEventsPerTurn, 0);
  if (count == 0) {
    ++looks_;
    turns_per_wait_ = std::min(2 * turns_per_wait_, kFoundPerWait);
    const std::uint32_t glances = glances_if_some_rest_.load(std::memory_order_relaxed);
    glances_if_some_rest_.store(std::min(2 * glances, kGlancesPerTurn), std::memory_order_relaxed);
    return found;
  }
  turns_per_wait_ = kTurnsPerWait;
  glances_if_some_rest_.store(kGlancesIfSomeRest, std::memory_order_relaxed);
  if (count < 0) [[unlikely]]
    count = after_failure(events, kEventsPerTurn, errno);
  if (count <= 0) return found;
  const std::uint64_t data = events[0].data.u64;
  if (count != 1 || data == kKickData)
    habit_ = Habit{};
  else if (data == habit_.data)
    ++habit_.times;
  else
    habit_ = Habit{data, 1};
  dispatch(events, count);
  return true;
}

bool Reactor::turn() noexcept {
  const NotCancelled scope;
  bool found = run_deferred();
  found |= wait_or_look();
  if (found) ++found_;
  if (!found || next_turn_.load(std::memory_order_relaxed) || found_ >= kTimersPerFound) {
    found_ = 0;
    fire_timers();
  }
  found |= run_deferred();
  const std::uint32_t turns = turns_.load(std::memory_order_relaxed) + 1;
  turns_.store(turns, std::memory_order_relaxed);
  // A find is not delayed by renewing the lease, as long as enough turns find nothing. If each poll
  // finds something, the only turns are those behind every kHabit-th glance.
  if (turns >= kHabit && (!found || turns % kHabit <= 1))
    lease_.renew_for_poll(Clock::now(), contended_.load(std::memory_order_relaxed),
                          awake_count_.load(std::memory_order_relaxed));
  return found;
}

// A turn of a thread that may not come back: pollers stay awake only if the application polls
// habitually.
bool Reactor::lone_turn() noexcept {
  if (some_when_polled_.load(std::memory_order_relaxed)) [[unlikely]]
    wake_for_poll();
  const bool found = turn();
  const std::uint32_t turns = turns_.load(std::memory_order_relaxed);
  const bool habit = turns >= kHabit;
  if (turns % kWakeFewEvery == kWakeFewAfter) wake_few_pollers();
  if (!habit && pollers_awake()) let_pollers_rest();
  release();
  if (!habit)
    nominate_follower();  // it has found the role taken, and this thread may not come back
  // A guard that no descriptor wakes does not notice the polls; it must park, so that polled() is
  // true.
  if (habit) wake_guard();
  return found;
}

void Reactor::progress() noexcept {
  if (claim()) lone_turn();
}

}  // namespace udapl
