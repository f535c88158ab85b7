// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The service thread of a reactor: drives when no application thread does.
#include <cerrno>

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "common/backoff.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/reactor/reactor.h"

namespace udapl {

Result<std::unique_ptr<Reactor>> Reactor::create(const char* name) {
  Fd epoll = Fd::made(::epoll_create1(EPOLL_CLOEXEC));
  Fd kick = Fd::made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd timer = Fd::made(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  std::unique_ptr<Reactor> reactor;
  if (epoll.valid() && kick.valid() && timer.valid())
    reactor.reset(new Reactor(std::move(epoll), std::move(kick), std::move(timer)));
  if (reactor == nullptr || !reactor->events_.add_kick()) {
    const int error = errno;
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error,
                        "no descriptors for the service thread");
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  const int error = reactor->service_.start(name, Call::to<&Reactor::serve>(reactor.get()));
  if (error != 0) {
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error,
                        "cannot start the service thread");
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  reactor->enlist();
  return reactor;
}

Reactor::Reactor(Fd epoll, Fd kick, Fd timer) noexcept
    : events_(std::move(epoll), std::move(kick), role_), lease_(std::move(timer)) {}

Reactor::~Reactor() {
  give_up_left_sleep();
  strike_out();
  stopping_.store(true, std::memory_order_seq_cst);
  announce_work();
  service_.join();
  retire();  // first, because a thread that still drives may dismiss adopted objects
  while (true) {
    Adopted* object = nullptr;
    {
      const ScopedLock guard(lock_);
      if (adopted_.empty()) break;
      object = &adopted_.front();
      adopted_.pop_front();
    }
    delete object;
  }
}

// A thread may still be polling an EVD that was freed meanwhile. Waits until its turn has ended,
// and keeps the role taken from then on. Does not wait if the calling thread itself drives the
// reactor.
void Reactor::retire() noexcept {
  for (Backoff backoff; !role_.claim(); backoff.wait())
    if (driven_here()) return;
  role_.disown();
  const ScopedLock guard(lock_);
  pollers_.forget_when_polled();
}

void Reactor::serve() noexcept {
  while (!stopping_.load(std::memory_order_seq_cst)) {
    if ((has_work() || !application_drives()) && role_.claim()) {
      if (application_drives()) {
        fire_timers();
        run_deferred();
        if (has_work()) look_around();
        release();
      } else {
        guard();
      }
      nominate();
    }
    const bool leader = leader_present_.load(std::memory_order_seq_cst);
    const Deadline timer = queued_.first_timer();
    const bool watch = watch_others_.load(std::memory_order_seq_cst);
    const bool unattended = unattended_.load(std::memory_order_seq_cst);
    using Instead = Lease::Instead;
    const Instead instead = leader       ? Instead::kLeader
                            : unattended ? Instead::kNextLeader
                                         : Instead::kLease;
    const bool ready = lease_.park(instead, timer, watch ? events_.epoll() : -1, [&] {
      return service_wanted() || queued_.first_timer() != timer ||
             watch != watch_others_.load(std::memory_order_seq_cst) ||
             unattended != unattended_.load(std::memory_order_seq_cst) ||
             (leader && !leader_present_.load(std::memory_order_seq_cst));
    });
    if (!watch) continue;
    if (ready) {
      watch_others_.store(false, std::memory_order_seq_cst);
      clear_unattended();
      if (unattended) lease_.cut();  // no other thread handles it: this one takes over
    }
    // The leader may be asleep without a time limit and without watching the other descriptors. It
    // checks itself whether a timer is still due.
    if (ready || has_work() || lease_.due(Clock::now())) wake_sleeper();
  }
}

// Returns whether there is work that cannot wait until the lease ends.
bool Reactor::service_wanted() const noexcept {
  return stopping_.load(std::memory_order_seq_cst) || (has_work() && role_.free());
}

// Called with the role held. Drives until the application drives or wants to; returns without the
// role.
void Reactor::guard() noexcept {
  bool found = false;
  const bool was_long = lease_.was_long();
  end_direct();
  clear_unattended();
  do {
    turn_policy_.interrupt();
    fire_timers();
    run_deferred();
    if (stopping_.load(std::memory_order_seq_cst) || followers_.any()) {
      if (has_work()) look_around();
      return release();
    }
  } while (guard_sleeps(found));
  lease_.after_takeover(!found, was_long, Clock::now());
}

// Releases the role, sleeps in epoll, claims the role again and dispatches. Sets `found` if there
// was an event. Returns false, without the role, if another thread has driven meanwhile.
bool Reactor::guard_sleeps(bool& found) noexcept {
  if (pollers_awake()) let_pollers_rest();
  const Deadline timer = queued_.first_timer();
  guard_until_.store(timer.value_or(Clock::time_point::max()).time_since_epoch().count(),
                     std::memory_order_relaxed);
  role_.guard();
  const bool work_pending = stopping_.load(std::memory_order_seq_cst) || has_queued() ||
                            pollers_awake() || followers_.any() || queued_.first_timer() != timer;
  Clock::time_point until = Clock::now();
  if (!work_pending) until += kLongestSleep;
  if (timer && *timer < until) until = *timer;
  // Takes no events: if this thread does not get the role afterwards, edges would be lost.
  const bool kicked = events_.wait_as_guard(until);
  role_.end_guard();
  if (application_drives() || !role_.claim()) return false;
  end_direct();
  if (kicked) events_.take_kick();
  epoll_event events[tuning::kEventsPerTurn];
  const int count = events_.wait(events, tuning::kEventsPerTurn, Clock::now());
  dispatch(events, count);
  found |= count > 0;
  if (pollers_awake()) found |= ask_pollers();
  run_deferred();
  return true;
}

}  // namespace udapl
