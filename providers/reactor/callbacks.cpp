// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Timers and deferred calls: how they enter the reactor's queues.
#include "providers/reactor/callbacks.h"

#include "providers/reactor/reactor.h"

namespace udapl {

Timer::~Timer() {
  stop();
  reactor_.wait_while_running(this);
}

bool Timer::insert(Clock::time_point when) noexcept {
  const ScopedLock guard(reactor_.lock_);
  auto& timers = reactor_.timers_;
  if (hook_.is_linked()) timers.erase(timers.iterator_to(*this));
  when_ = when;
  timers.insert(*this);
  reactor_.note_first_timer();
  return &*timers.begin() == this;
}

void Timer::start(Clock::time_point when) noexcept {
  Reactor& reactor = reactor_;  // once started, the callback may run and destroy *this
  if (insert(when)) reactor.announce_timer(when);
}

void Timer::start_next_turn() noexcept {
  Reactor& reactor = reactor_;
  insert(Clock::now());
  reactor.next_turn_.store(true, std::memory_order_seq_cst);
  if (!reactor.polled()) reactor.announce_work();
}

void Timer::stop() noexcept {
  const ScopedLock guard(reactor_.lock_);
  if (!hook_.is_linked()) return;
  reactor_.timers_.erase(reactor_.timers_.iterator_to(*this));
  reactor_.note_first_timer();
}

bool Deferred::enqueue() noexcept {
  const ScopedLock guard(reactor_.lock_);
  if (hook_.is_linked()) return false;
  reactor_.deferred_.push_back(*this);
  reactor_.deferred_count_.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

void Deferred::post() noexcept {
  Reactor& reactor = reactor_;  // once queued, the callback may run and destroy *this
  if (enqueue()) reactor.announce_work();
}

void Deferred::post_for_poll() noexcept {
  Reactor& reactor = reactor_;
  // While the application polls, the service thread takes over when the lease ends, at the latest.
  if (enqueue() && !reactor.polled()) reactor.announce_work();
}

void Deferred::cancel() noexcept {
  const ScopedLock guard(reactor_.lock_);
  if (!hook_.is_linked()) return;
  reactor_.deferred_.erase(reactor_.deferred_.iterator_to(*this));
  reactor_.deferred_count_.fetch_sub(1, std::memory_order_relaxed);
}

void Deferred::close() noexcept {
  cancel();
  reactor_.wait_while_running(this);
}

}  // namespace udapl
