// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: a signal handler that runs while its thread sleeps may make calls of its own, or leave
// the sleep by longjmp. The next call of that thread gives up what the sleep has claimed: the role
// of a leader, or the place among the followers. A sleep that is resumed finds out.
#include <atomic>
#include <optional>

#include "common/backoff.h"
#include "providers/reactor/reactor.h"

namespace udapl {

namespace {

// What the calling thread has claimed for its sleep. Not on the stack, which longjmp abandons.
struct Sleep {
  Reactor* led = nullptr;
  WaitWord* word = nullptr;   // that the leader waits for
  std::uint32_t follows = 0;  // counts the sleeps of a follower
  bool following = false;
};
constinit thread_local Sleep mine;
constinit thread_local std::optional<Followers::Follower> follower;

}  // namespace

void Reactor::begin_leading_sleep(WaitWord& word) noexcept {
  mine.word = &word;
  mine.led = this;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

bool Reactor::end_leading_sleep() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool leads = leads_asleep();
  mine.led = nullptr;
  return leads;
}

bool Reactor::leads_asleep() const noexcept { return mine.led == this; }

Followers::Follower& Reactor::begin_following(WaitWord& word, std::uint32_t seen, bool idle,
                                              std::uint32_t& number) noexcept {
  number = ++mine.follows;
  mine.following = true;
  return follower.emplace(followers_, word, seen, idle);
}

bool Reactor::follows_still(std::uint32_t number) noexcept {
  return mine.follows == number && mine.following;
}

void Reactor::end_following() noexcept {
  mine.following = false;
  follower.reset();
}

void Reactor::give_up_sleep() noexcept {
  if (mine.following) end_following();
  Reactor* const led = mine.led;
  if (led == nullptr) return;
  mine.led = nullptr;
  led->role_.resume();
  mine.word->set_waker(nullptr);
  led->end_direct();
  led->leader_present_.store(false, std::memory_order_seq_cst);
  led->turn_policy_.interrupt();
  led->lease_.renew_for_poll(Clock::now());
  led->release();
  led->nominate();
}

bool Reactor::sleep_was_left() noexcept { return mine.led != nullptr || mine.following; }

// Edges that epoll has reported are not reported again. The handler may have closed the IA.
bool Reactor::retake_role() noexcept {
  for (Backoff backoff; exists(*this); backoff.wait()) {
    if (role_.claim()) return true;
    polls_drive_.store(true, std::memory_order_seq_cst);
    wake_sleeper();
  }
  return false;
}

}  // namespace udapl
