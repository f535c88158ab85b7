// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Puts timers and deferred calls into the reactor's queues.
#include "providers/reactor/callbacks.h"

#include "providers/reactor/reactor.h"

namespace udapl {

Timer::~Timer() {
  stop();
  reactor_.running_.wait_for_end(this);
}

bool Timer::insert(Clock::time_point when) noexcept {
  const ScopedLock guard(reactor_.lock_);
  return reactor_.calls_.start(*this, when);
}

void Timer::start(Clock::time_point when) noexcept {
  Reactor& reactor = reactor_;  // once started, the callback may run and destroy *this
  if (insert(when)) reactor.announce_timer(when);
}

void Timer::start_for_poll(Clock::duration delay) noexcept {
  Reactor& reactor = reactor_;
  const Clock::time_point when = Clock::now() + delay;
  // While the application polls, the service thread takes over at the latest when the lease ends.
  if (insert(when) && !reactor.polled() && !reactor.polled_here()) reactor.announce_timer(when);
}

void Timer::start_next_turn() noexcept {
  Reactor& reactor = reactor_;
  insert(Clock::now());
  reactor.next_turn_.store(true, std::memory_order_seq_cst);
  if (!reactor.polled()) reactor.announce_work();
}

void Timer::stop() noexcept {
  const ScopedLock guard(reactor_.lock_);
  reactor_.calls_.stop(*this);
}

bool Deferred::enqueue() noexcept {
  const ScopedLock guard(reactor_.lock_);
  return reactor_.calls_.post(*this);
}

void Deferred::post() noexcept {
  Reactor& reactor = reactor_;  // once queued, the callback may run and destroy *this
  if (enqueue()) reactor.announce_work();
}

void Deferred::post_for_poll() noexcept {
  Reactor& reactor = reactor_;
  // While the application polls, the service thread takes over at the latest when the lease ends.
  if (enqueue() && !reactor.polled()) reactor.announce_work();
}

void Deferred::hurry() noexcept { reactor_.announce_work(); }

void Deferred::cancel() noexcept {
  const ScopedLock guard(reactor_.lock_);
  reactor_.calls_.cancel(*this);
}

void Deferred::close() noexcept {
  cancel();
  reactor_.running_.wait_for_end(this);
}

}  // namespace udapl
