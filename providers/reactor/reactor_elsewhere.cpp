// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: a thread may drive several reactors in turn, because its program uses several IAs in one
// thread. After it has driven a reactor, that reactor's service thread does not take over until the
// lease ends. If the thread sleeps in another reactor meanwhile, it watches the reactors that it
// has driven before until their leases end.
#include <cstdint>
#include <limits>

#include "common/backoff.h"
#include "common/fork.h"
#include "providers/reactor/reactor.h"

namespace udapl {

namespace {

// Which reactors the calling thread has driven.
struct Driven {
  const Reactor* last = nullptr;  // never dereferenced: it may have been destroyed
  bool several = false;           // another one, driven before, may still have a lease
  Clock::time_point check_at;     // when to check again whether such leases are unused
};
constinit thread_local Driven driven;

constexpr std::uint64_t kNewest = std::numeric_limits<std::uint64_t>::max();

}  // namespace

// All reactors of this library, the newest first.
class Reactor::All final : private forks::Cache {
 public:
  static All& instance() noexcept;
  void add(Reactor& reactor) noexcept {
    watch_forks();
    const ScopedLock guard(lock_);
    reactor.number_ = newest_ == nullptr ? 0 : newest_->number_ + 1;
    reactor.next_older_ = newest_;
    newest_ = &reactor;
  }
  // Waits for threads that have claimed the reactor.
  void remove(Reactor& reactor) noexcept {
    take_out(reactor);
    for (Backoff backoff; claimed(reactor) && !reactor.driven_here();) backoff.wait();
  }

  // Finds the newest reactor below number `below`, other than `here`, that has a lease and that the
  // calling thread was the last to drive. Claims its role and sets `below` to its number. It cannot
  // be destroyed until let_go(). Returns null if there is none.
  Reactor* claim_left(const Reactor& here, std::uint64_t& below) noexcept {
    const Clock::time_point now = Clock::now();
    const ScopedLock guard(lock_);
    for (Reactor* other = newest_; other != nullptr; other = other->next_older_) {
      if (other == &here || other->number_ >= below || !other->left_by_caller(now)) continue;
      if (other->role_.claim()) {
        below = other->number_;
        ++other->claims_;
        return other;
      }
      // Another thread is driving it, usually its service thread, which continues without the
      // lease.
      other->lease_.cut();
    }
    return nullptr;
  }
  [[nodiscard]] bool has(const Reactor& reactor) noexcept {
    const ScopedLock guard(lock_);
    const Reactor* one = newest_;
    while (one != nullptr && one != &reactor) one = one->next_older_;
    return one != nullptr;
  }
  // Called when the caller has released the role and does not use the reactor any more.
  void let_go(Reactor& reactor) noexcept {
    const ScopedLock guard(lock_);
    --reactor.claims_;
  }

 private:
  void take_out(Reactor& reactor) noexcept {
    const ScopedLock guard(lock_);
    Reactor** place = &newest_;
    while (*place != nullptr && *place != &reactor) place = &(*place)->next_older_;
    if (*place != nullptr) *place = reactor.next_older_;
  }
  [[nodiscard]] bool claimed(const Reactor& reactor) noexcept {
    const ScopedLock guard(lock_);
    return reactor.claims_ != 0;
  }

  constexpr All() noexcept : Cache(&All::forget) {}

  // A forked child does not use the reactors of its parent.
  static void forget(forks::Cache& base) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
    auto& all = static_cast<All&>(base);
    all.newest_ = nullptr;
    all.lock_.unlock();
  }

  SpinLock lock_;
  Reactor* newest_ UDAPL_GUARDED_BY(lock_) = nullptr;
};

Reactor::All& Reactor::All::instance() noexcept {
  static constinit All all;
  return all;
}

bool Reactor::exists(const Reactor& reactor) noexcept { return All::instance().has(reactor); }

void Reactor::enlist() noexcept { All::instance().add(*this); }

void Reactor::strike_out() noexcept { All::instance().remove(*this); }

void Reactor::note_driven() noexcept {
  give_up_left_sleep();
  if (driven.last != this) [[unlikely]] {
    driven.several |= driven.last != nullptr;
    driven.last = this;
  }
  driven_last_by_.store(::pthread_self(), std::memory_order_relaxed);
}

bool Reactor::drives_others() const noexcept {
  return driven.several || (driven.last != nullptr && driven.last != this);
}

// Whether the calling thread was the last to drive and the lease lasts; false if a thread leads
// now.
bool Reactor::left_by_caller(Clock::time_point now) const noexcept {
  return driven_last_by_.load(std::memory_order_relaxed) == ::pthread_self() && lease_.valid(now) &&
         !leader_present_.load(std::memory_order_relaxed) && !events_.lost();
}

void Reactor::look_elsewhere(Elsewhere& elsewhere) noexcept {
  elsewhere.clear();
  std::uint64_t below = kNewest;
  while (!elsewhere.full()) {
    Reactor* const other = All::instance().claim_left(*this, below);
    if (other == nullptr) break;
    elsewhere.add(other->events_.epoll());
    elsewhere.has_input |= other->turn_of_sleeper();
    All::instance().let_go(*other);
  }
  driven = {this, elsewhere.any(), {}};
  if (elsewhere.any()) end_direct();
}

// A turn for a thread that is about to sleep elsewhere, and that descriptors must wake: puts the
// pollers to rest, and all other handlers into epoll. Returns whether a poller has input and cannot
// rest.
bool Reactor::turn_of_sleeper() noexcept {
  turn_policy_.interrupt();
  hot_.forget();
  end_direct();
  wake_for_poll();
  turn();
  if (pollers_awake()) let_pollers_rest();
  const bool has_input = pollers_awake();
  release();
  nominate();
  return has_input;
}

void Reactor::leave_others() noexcept {
  std::uint64_t below = kNewest;
  while (Reactor* const other = All::instance().claim_left(*this, below)) {
    other->lease_.end();
    other->release();
    All::instance().let_go(*other);
  }
  driven = {this, false, {}};
}

void Reactor::leave_unused_others(Clock::time_point now) noexcept {
  if (now < driven.check_at) return;
  bool any = false;
  std::uint64_t below = kNewest;
  while (Reactor* const other = All::instance().claim_left(*this, below)) {
    if (other->unused(now))
      other->lease_.end();
    else
      any = true;
    other->release();
    All::instance().let_go(*other);
  }
  if (any)
    driven.check_at = now + tuning::kUnusedLease;
  else
    driven = {driven.last == this ? this : nullptr, false, {}};
}

}  // namespace udapl
