// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: threads of the application that wait. One leads, the others follow.
#include <utility>

#include "common/not_cancelled.h"
#include "providers/reactor/coarse_clock.h"
#include "providers/reactor/reactor.h"

namespace udapl {

WaitResult Reactor::block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept {
  give_up_left_sleep();
  if (driven_here()) return word.wait(seen, deadline);
  const NotCancelled scope;
  bool idle = false;  // this thread has led, and all events were for other threads
  for (Deadline suspend;; suspend = suspend.value_or(Clock::now() + kLongestSleep)) {
    if (word.value() != seen) return WaitResult::kChanged;
    if (expired(suspend)) return WaitResult::kSleptLong;
    if (deadline && ends_soon(*deadline)) return poll_until(word, seen, *deadline);
    if (!idle && !polls_drive() && role_.claim()) {
      const WaitResult result = lead(word, seen, deadline, idle);
      if (!idle) return result;
    }
    bool left = false;
    const WaitResult result = follow(word, seen, deadline, idle, left);
    if (left) return WaitResult::kInterrupted;
    idle = false;
    if (result == WaitResult::kChanged && word.value() == seen) continue;
    // This thread may have been nominated, but its wait has ended: nominates another one.
    nominate();
    return result;
  }
}

// Returns whether the wait is too short to sleep. With a sleeping leader, which serves this thread
// as well, only a wait whose deadline has passed is: a thread that makes such waits again and again
// polls, so that the leader makes way.
bool Reactor::ends_soon(Clock::time_point deadline) const noexcept {
  if (deadline - coarse_now() > kCoarse) return false;
  const Clock::duration left = deadline - Clock::now();
  return left <= Clock::duration(0) || (left <= tuning::kPolledWait && !role_.leader_sleeps());
}

WaitResult Reactor::poll_until(WaitWord& word, std::uint32_t seen,
                               Clock::time_point deadline) noexcept {
  do {
    poll();
    if (word.value() != seen) return WaitResult::kChanged;
  } while (Clock::now() < deadline);
  return WaitResult::kTimedOut;
}

// Returns whether a leader has made way for a thread that still polls. When that thread stops
// polling, its lease ends, and the service thread nominates a follower.
bool Reactor::polls_drive() noexcept {
  if (!polls_drive_.load(std::memory_order_seq_cst)) return false;
  if (lease_.valid(Clock::now())) return true;
  polls_drive_.store(false, std::memory_order_seq_cst);
  return false;
}

namespace {

WaitResult wait_some_seconds(WaitWord& word, std::uint32_t seen,
                             const Deadline& deadline) noexcept {
  const Clock::time_point most = Clock::now() + Reactor::kLongestSleep;
  if (deadline && *deadline <= most) return word.wait(seen, deadline);
  const WaitResult result = word.wait(seen, most);
  return result == WaitResult::kTimedOut ? WaitResult::kSleptLong : result;
}

// Renews the lease after a wait that found nothing, as after a poll: what its thread does next may
// take longer than the wait, and other threads wait for what arrives meanwhile. Returns the current
// time.
Clock::time_point renew_for_poll(Lease& lease) noexcept {
  const Clock::time_point now = Clock::now();
  lease.renew_for_poll(now);
  return now;
}

}  // namespace

// Wakes a follower if no thread drives. While the lease lasts, wakes no idle follower, because the
// thread that has driven will probably drive again. When the lease ends, the service thread
// nominates one.
void Reactor::nominate() noexcept {
  if (!followers_.any() || !role_.free()) return;
  followers_.nominate(leased() ? Followers::Whom::kNotIdle : Followers::Whom::kAny);
}

// Sleeps while another thread drives or, if this thread is `idle`, while a lease lasts. Nominations
// change the word: sets `seen` to the value after them. Sets `left` if a signal handler has made
// calls, which may have closed the IA.
WaitResult Reactor::follow(WaitWord& word, std::uint32_t& seen, const Deadline& deadline, bool idle,
                           bool& left) noexcept {
  std::uint32_t number = 0;
  Followers::Follower& me = begin_following(word, seen, idle, number);
  auto result = WaitResult::kChanged;
  // A thread that has driven checks for followers after it has released the role, and the service
  // thread does when the lease ends: one of them wakes this thread.
  if (!role_.free() || polls_drive() || (idle && leased())) {
    if (drives_others()) leave_others();
    result = wait_some_seconds(word, seen, deadline);
  }
  left = !follows_still(number);
  if (left) return result;
  seen = me.leave();
  end_following();
  return result;
}

// Polls epoll at least once, because a thread that waits again and again keeps the service thread
// from doing so. Sets `idle` if the events were for others, so that this thread makes way.
WaitResult Reactor::lead(WaitWord& word, std::uint32_t seen, const Deadline& deadline,
                         bool& idle) noexcept {
  Followers::Term term(followers_);
  leader_present_.store(true, std::memory_order_seq_cst);
  led_since_ = Clock::time_point();
  leads_for_long_ = false;
  word.set_waker(this);
  Elsewhere elsewhere;
  auto result = WaitResult::kChanged;
  while (true) {
    if (direct_.timer_fired || !service_thread_times(queued_.first_timer())) fire_timers();
    run_deferred();
    if (pollers_awake()) {
      ask_pollers();
      if (word.value() == seen) let_pollers_rest();
    }
    if (drives_others() && word.value() == seen) look_elsewhere(elsewhere);
    role_.fall_asleep();
    const bool late = !service_thread_times(deadline) && expired(deadline);
    const Slept slept = leader_sleeps(word, late || word.value() != seen, deadline, elsewhere);
    if (slept == Slept::kLeft) return WaitResult::kInterrupted;
    const bool uninterrupted = slept == Slept::kWoken;
    run_deferred();
    if (word.value() != seen) break;
    if (late || !uninterrupted) {
      result = late ? WaitResult::kTimedOut : WaitResult::kInterrupted;
      break;
    }
    if (leads_for_long_) {
      result = WaitResult::kSleptLong;
      break;
    }
    if (polls_drive_.load(std::memory_order_seq_cst)) break;
    if (term.served() >= tuning::kServedByIdle) {
      term.make_way();
      idle = true;
      break;
    }
  }
  word.set_waker(nullptr);
  leader_present_.store(false, std::memory_order_seq_cst);
  turn_policy_.interrupt();
  note_driven();
  bool may_leave = false;
  if (elsewhere.any()) direct_.times = 0;
  if (idle || !leave_unattended(elsewhere, may_leave)) {
    clear_unattended();
    const Clock::time_point now =
        result == WaitResult::kTimedOut
            ? renew_for_poll(lease_)
            : lease_.renew_after_wait(queued_.first_timer(), idle || followers_.any());
    if (now > slept_at_ + tuning::kShortWait && !may_leave)
      direct_.times = 0;
    else if (direct_.times >= tuning::kManyWakes && !role_.guarded())
      go_direct();
  }
  release();
  nominate();
  return result;
}

// The time at which a leader must wake without an event.
Clock::time_point Reactor::leader_wakes_at(const Deadline& deadline,
                                           const Deadline& suspend) const noexcept {
  Clock::time_point until = slept_at_ + kLongestSleep;
  for (const Deadline& other : {queued_.first_timer(), deadline, suspend})
    if (other && *other < until) until = *other;
  return until;
}

// Called after fall_asleep(), from which on new work wakes this thread: so all conditions are
// checked after that. The caller has checked some of them (`work_pending`), this function checks
// the rest.
Reactor::Slept Reactor::leader_sleeps(WaitWord& word, bool work_pending, const Deadline& deadline,
                                      Elsewhere& elsewhere) noexcept {
  if (has_queued() || pollers_awake() || elsewhere.has_input) work_pending = true;
  Deadline until;
  Deadline suspend;
  const bool fired = std::exchange(direct_.timer_fired, false);
  // Not if the service thread has woken for the timer as well and has parked again.
  if (fired && (lease_.due(Clock::now()) || !lease_.watches_until(queued_.first_timer())))
    lease_.postpone(queued_.first_timer());
  const bool timed_by_other =
      service_thread_times(deadline) && service_thread_times(queued_.first_timer());
  if (work_pending || !timed_by_other || fired) {
    slept_at_ = Clock::now();
    if (led_since_ == Clock::time_point()) led_since_ = slept_at_;
    leads_for_long_ = slept_at_ - led_since_ >= kLongestSleep / 2;
    suspend = lease_.suspend_at();
    // If the wait ends before the timer fires, its end renews the lease in time.
    if (suspend && deadline && *deadline <= *suspend + Lease::kMargin) suspend = std::nullopt;
    if (work_pending || leads_for_long_)
      until = slept_at_;
    else if (!timed_by_other)
      until = leader_wakes_at(deadline, suspend);
  } else {
    slept_at_ = Clock::time_point::max() - tuning::kShortWait;
  }

  epoll_event events[tuning::kEventsPerTurn];
  const bool direct = direct_.fd >= 0 && !events_.lost();
  begin_leading_sleep(word);
  const int count = direct            ? wait_directly(events, until)
                    : elsewhere.any() ? events_.wait_with(elsewhere.with_own(), events,
                                                          tuning::kEventsPerTurn, until)
                                      : events_.wait_long(events, tuning::kEventsPerTurn, until);
  const bool interrupted = count < 0;  // whatever errno is: a signal handler may have changed it
  if (end_leading_sleep()) [[likely]] {
    role_.resume();
  } else {
    if (count <= 0 || !retake_role()) return Slept::kLeft;
    leader_present_.store(true, std::memory_order_seq_cst);
    word.set_waker(this);
  }
  if (count == 0 && !work_pending && until && until == suspend && expired(until)) lease_.suspend();
  if (count > 0) note_wake(events, count);
  if (!leave_input(word, events, count, elsewhere)) dispatch(events, count);
  if (pollers_awake()) ask_pollers();
  return interrupted ? Slept::kInterrupted : Slept::kWoken;
}

}  // namespace udapl
