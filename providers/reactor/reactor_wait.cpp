// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: threads of the application that wait. One leads, the others follow.
#include <cerrno>

#include "providers/reactor/not_cancelled.h"
#include "providers/reactor/reactor.h"

namespace udapl {

WaitResult Reactor::block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept {
  if (driven_here()) return word.wait(seen, deadline);
  const NotCancelled scope;
  while (true) {
    if (word.value() != seen) return WaitResult::kChanged;
    if (claim()) return lead(word, seen, deadline);
    const WaitResult result = follow(word, seen, deadline);
    if (result == WaitResult::kChanged && word.value() == seen) continue;
    // Perhaps this thread was nominated and goes elsewhere now.
    if ((role_.load(std::memory_order_seq_cst) & kState) == kFree) nominate_follower();
    return result;
  }
}

// Sleeps while another thread drives.
WaitResult Reactor::follow(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept {
  Follower me{&word, {}};
  {
    const ScopedLock guard(lock_);
    followers_.push_back(me);
    follower_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  // The driver, when it has given the role up, looks for followers.
  WaitResult result = WaitResult::kChanged;
  if ((role_.load(std::memory_order_seq_cst) & kState) != kFree) result = word.wait(seen, deadline);
  const ScopedLock guard(lock_);
  followers_.erase(followers_.iterator_to(me));
  follower_count_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

// Looks into epoll at least once: a thread that waits again and again keeps the service thread
// away.
WaitResult Reactor::lead(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept {
  leader_present_.store(true, std::memory_order_seq_cst);
  word.set_waker(this);
  auto result = WaitResult::kChanged;
  while (true) {
    fire_timers();
    run_deferred();
    become(kAsleep);
    const bool late = expired(deadline);
    const bool uninterrupted = leader_sleeps(late || word.value() != seen, deadline);
    run_deferred();
    if (word.value() != seen) break;
    if (late || !uninterrupted) {
      result = late ? WaitResult::kTimedOut : WaitResult::kInterrupted;
      break;
    }
  }
  word.set_waker(nullptr);
  leader_present_.store(false, std::memory_order_seq_cst);
  turns_.store(0, std::memory_order_relaxed);
  lease_.renew_after_wait(Clock::now(), next_timer());
  release();
  nominate_follower();
  return result;
}

// After kAsleep every news wakes us: so the caller has looked for what it knows of since, and here
// is the rest.
bool Reactor::leader_sleeps(bool news, const Deadline& deadline) noexcept {
  Clock::time_point until = Clock::now() + kLongestSleep;
  const Deadline suspend = lease_.suspend_at();
  for (const Deadline& other : {next_timer(), deadline, suspend})
    if (other && *other < until) until = *other;
  if (deferred_count_.load(std::memory_order_seq_cst) != 0) news = true;
  if (news) until = Clock::now();

  epoll_event events[kEventsPerTurn];
  const int count = wait(events, kEventsPerTurn, until);
  const bool interrupted = count < 0 && errno == EINTR;
  become(kActive);
  if (count == 0 && !news && until == suspend) lease_.suspend();
  dispatch(events, count);
  return !interrupted;
}

}  // namespace udapl
