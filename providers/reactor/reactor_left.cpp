// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: a signal handler that interrupts a sleep in block() may make calls, or leave the sleep
// by longjmp. The next call of that thread, or the end of the thread, gives up what the sleep has
// claimed: the role of a leader, or the place among the followers. If the sleep is resumed, it sees
// that.
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

#include "common/backoff.h"
#include "common/thread_end.h"
#include "providers/reactor/reactor.h"

namespace udapl {

namespace {

// What the calling thread has claimed for its sleep. Not on the stack, because longjmp abandons
// that.
struct Sleep {
  Reactor* led = nullptr;
  WaitWord* word = nullptr;   // the word for which the leader waits
  std::uint32_t follows = 0;  // counts the sleeps of a follower
  bool following = false;
};
constinit thread_local Sleep mine;

// Holds a follower while `mine.following`. Has no destructor, because that would run at the end of
// the thread, perhaps before give_up_sleep().
struct Place {
  alignas(Followers::Follower) std::array<std::byte, sizeof(Followers::Follower)> bytes;
  Followers::Follower* get() noexcept {
    return std::launder(reinterpret_cast<Followers::Follower*>(bytes.data()));
  }
};
constinit thread_local Place follower{};

}  // namespace

void Reactor::begin_leading_sleep(WaitWord& word) noexcept {
  at_thread_end(ThreadEnd::kSleep, &give_up_sleep);
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
  at_thread_end(ThreadEnd::kSleep, &give_up_sleep);
  number = ++mine.follows;
  auto* const made = std::construct_at(follower.get(), followers_, word, seen, idle);
  mine.following = true;
  return *made;
}

bool Reactor::follows_still(std::uint32_t number) noexcept {
  return mine.follows == number && mine.following;
}

void Reactor::end_following() noexcept {
  mine.following = false;
  std::destroy_at(follower.get());
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

// Claims the role again, because epoll does not report an edge twice, and the events that this
// sleep has taken must be dispatched. The signal handler may have closed the IA.
bool Reactor::retake_role() noexcept {
  for (Backoff backoff; exists(*this); backoff.wait()) {
    if (role_.claim()) return true;
    polls_drive_.store(true, std::memory_order_seq_cst);
    wake_sleeper();
  }
  return false;
}

}  // namespace udapl
