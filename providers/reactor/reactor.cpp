// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/reactor.h"

#include <cerrno>
#include <cstring>
#include <new>

#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cause.h"
#include "common/errno_text.h"
#include "common/trace.h"
#include "providers/reactor/epoll_wait.h"

namespace udapl {

namespace {

constexpr int kEventsPerTurn = 64;

std::uint64_t event_data(std::uint32_t slot, std::uint32_t generation) noexcept {
  return std::uint64_t{generation} << 32 | slot;
}

}  // namespace

// ---- descriptors -------------------------------------------------------------------------------

Status Reactor::watch(int fd, std::uint32_t events, Handler& handler) noexcept {
  epoll_event event{};
  event.events = events;
  std::uint32_t index = WatchSlot::kNone;
  {
    const ScopedLock guard(lock_);
    if (free_slot_ == WatchSlot::kNone) {
      try {
        slots_.emplace_back();
      } catch (const std::bad_alloc&) {
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
      }
      free_slot_ = static_cast<std::uint32_t>(slots_.size() - 1);
    }
    index = free_slot_;
    Slot& slot = slots_[index];
    free_slot_ = slot.next_free;
    slot.handler = &handler;
    handler.watch_slot.index_ = index;
    event.data.u64 = event_data(index, slot.generation);
  }
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return Status();
  UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), "cannot watch descriptor %d: %s", fd,
                ErrnoText(errno).c_str());
  forget(handler);
  return failure(DAT_INSUFFICIENT_RESOURCES);
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
  Slot& slot = slots_[index];
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

// ---- the drive role ----------------------------------------------------------------------------
//
// The role and what is queued are two sides of Dekker's handshake, hence the sequentially
// consistent accesses: who queues looks at the role afterwards, who sleeps or leaves changes the
// role and looks at the queues afterwards. At least one of them sees the other.

bool Reactor::claim() noexcept {
  std::uint32_t expected = kFree;
  if (role_.load(std::memory_order_relaxed) != kFree ||
      !role_.compare_exchange_strong(expected, kActive, std::memory_order_seq_cst))
    return false;
  driver_.store(::pthread_self(), std::memory_order_relaxed);
  return true;
}

void Reactor::release() noexcept {
  do {
    driver_.store(pthread_t{}, std::memory_order_relaxed);
    role_.store(kFree, std::memory_order_seq_cst);
    if (deferred_count_.load(std::memory_order_seq_cst) == 0 || !claim()) return;
    run_deferred();
  } while (true);
}

bool Reactor::driven_here() const noexcept {
  return driver_.load(std::memory_order_relaxed) == ::pthread_self();
}

void Reactor::announce_work() noexcept {
  switch (role_.load(std::memory_order_seq_cst)) {
    case kAsleep:
      return wake();
    case kFree:
      return service_word_.signal();
    default:
      return;  // looks before it sleeps or leaves
  }
}

void Reactor::wake() noexcept {
  std::uint32_t expected = kAsleep;
  if (!role_.compare_exchange_strong(expected, kActive, std::memory_order_seq_cst)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(kick_.get(), &one, sizeof one);
}

// The follower returns to its caller, which waits again and then finds the role free. The word is
// signalled under the lock: a follower leaves the list before its word may go away.
void Reactor::nominate_follower() noexcept {
  if (follower_count_.load(std::memory_order_seq_cst) == 0) return;
  const ScopedLock guard(lock_);
  if (!followers_.empty()) followers_.front().word->signal();
}

void Reactor::stamp() noexcept {
  stamp_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

bool Reactor::lease_valid(Clock::time_point now) const noexcept {
  const Clock::duration stamped(stamp_.load(std::memory_order_relaxed));
  return now.time_since_epoch() - stamped < kLease;
}

bool Reactor::application_drives() const noexcept {
  return leader_present_.load(std::memory_order_seq_cst) || lease_valid(Clock::now());
}

// ---- what a driver does ------------------------------------------------------------------------

void Reactor::dispatch(const epoll_event* events, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[i].data.u64;
    if (data == kKickData) {
      std::uint64_t kicks = 0;
      [[maybe_unused]] const ssize_t got = ::read(kick_.get(), &kicks, sizeof kicks);
      continue;
    }
    Handler* handler = nullptr;
    {
      const ScopedLock guard(lock_);
      const Slot& slot = slots_[static_cast<std::uint32_t>(data)];
      if (slot.handler == nullptr || slot.generation != data >> 32) continue;
      handler = slot.handler;
      begin_call(handler);
    }
    handler->on_ready(events[i].events);
    end_call();
  }
}

Deadline Reactor::next_timer() noexcept {
  const ScopedLock guard(lock_);
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->when_;
}

void Reactor::fire_timers() noexcept {
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
    }
    call.function(call.object);
    end_call();
  }
}

// As many as there are now: what they post themselves is for the next turn, after the sockets.
void Reactor::run_deferred() noexcept {
  for (auto left = deferred_count_.load(std::memory_order_seq_cst); left > 0; --left) {
    Call call{};
    {
      const ScopedLock guard(lock_);
      if (deferred_.empty()) return;
      Deferred& first = deferred_.front();
      call = first.call_;
      begin_call(&first);
      deferred_.pop_front();
      deferred_count_.fetch_sub(1, std::memory_order_relaxed);
    }
    call.function(call.object);
    end_call();
  }
}

// Sleeps until a descriptor is ready, a timer is due, the deadline, or a wake(); then dispatches.
bool Reactor::sleep(bool has_news, const Deadline& deadline) noexcept {
  Deadline until = next_timer();
  if (!until || (deadline && *deadline < *until)) until = deadline;
  if (has_news || deferred_count_.load(std::memory_order_seq_cst) != 0) until = Clock::now();

  epoll_event events[kEventsPerTurn];
  const int count = wait_for_events(epoll_.get(), events, kEventsPerTurn, until);
  const bool interrupted = count < 0 && errno == EINTR;
  role_.store(kActive, std::memory_order_seq_cst);
  dispatch(events, count);
  return !interrupted;
}

void Reactor::progress() noexcept {
  stamp();
  if (!claim()) return;
  run_deferred();
  epoll_event events[kEventsPerTurn];
  dispatch(events, ::epoll_wait(epoll_.get(), events, kEventsPerTurn, 0));
  fire_timers();
  run_deferred();
  release();
}

WaitResult Reactor::block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept {
  if (driven_here()) return word.wait(seen, deadline);
  while (true) {
    stamp();
    if (word.value() != seen) return WaitResult::kChanged;
    if (expired(deadline)) return WaitResult::kTimedOut;
    if (claim()) return lead(word, seen, deadline);

    Follower me{&word, {}};
    {
      const ScopedLock guard(lock_);
      followers_.push_back(me);
      follower_count_.fetch_add(1, std::memory_order_seq_cst);
    }
    WaitResult result = WaitResult::kChanged;
    if (role_.load(std::memory_order_seq_cst) != kFree) {
      // A sleeping service thread makes room for us when it sees a follower.
      if (!leader_present_.load(std::memory_order_seq_cst)) wake();
      result = word.wait(seen, deadline);
    }
    {
      const ScopedLock guard(lock_);
      followers_.erase(followers_.iterator_to(me));
      follower_count_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (result == WaitResult::kChanged && word.value() == seen) continue;
    // Perhaps this thread was nominated and goes elsewhere now.
    if (role_.load(std::memory_order_seq_cst) == kFree) nominate_follower();
    return result;
  }
}

WaitResult Reactor::lead(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept {
  leader_present_.store(true, std::memory_order_seq_cst);
  word.set_waker(this);
  auto result = WaitResult::kChanged;
  while (true) {
    fire_timers();
    run_deferred();
    if (word.value() != seen) break;
    if (expired(deadline)) {
      result = WaitResult::kTimedOut;
      break;
    }
    fall_asleep();
    if (!sleep(word.value() != seen, deadline) && word.value() == seen) {
      result = WaitResult::kInterrupted;
      break;
    }
  }
  word.set_waker(nullptr);
  stamp();
  leader_present_.store(false, std::memory_order_seq_cst);
  release();
  nominate_follower();
  // The service thread begins to watch the lease again.
  if (parked_for_leader_.load(std::memory_order_seq_cst) &&
      !leader_present_.load(std::memory_order_seq_cst))
    service_word_.signal();
  return result;
}

}  // namespace udapl
