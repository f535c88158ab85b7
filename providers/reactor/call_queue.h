// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/callbacks.h"

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <atomic>
#include <cstdint>

namespace udapl {

// The state of a CallQueue that can be read without the reactor's lock. Sequentially consistent: a
// driving thread that goes to sleep or releases the role checks it afterwards, see DriveRole.
struct QueuedCalls {
  std::atomic<std::uint32_t> deferred{0};
  std::atomic<Clock::rep> timer{Clock::time_point::max().time_since_epoch().count()};

  [[nodiscard]] bool any_deferred() const noexcept {
    return deferred.load(std::memory_order_seq_cst) != 0;
  }
  [[nodiscard]] Deadline first_timer() const noexcept {  // nullopt: there is none
    const Clock::time_point first(Clock::duration(timer.load(std::memory_order_seq_cst)));
    return first == Clock::time_point::max() ? Deadline() : first;
  }
};

// The started timers and posted deferred calls of a reactor. Owned by a Reactor; used under its
// lock.
class CallQueue {
 public:
  explicit CallQueue(QueuedCalls& queued) noexcept : queued_(queued) {}

  // Replaces an earlier start. Returns whether `timer` is now the earliest.
  bool start(Timer& timer, Clock::time_point when) noexcept {
    if (timer.hook_.is_linked()) timers_.erase(timers_.iterator_to(timer));
    timer.when_ = when;
    timers_.insert(timer);
    note_first();
    return &*timers_.begin() == &timer;
  }
  void stop(Timer& timer) noexcept {
    if (!timer.hook_.is_linked()) return;
    timers_.erase(timers_.iterator_to(timer));
    note_first();
  }
  // Removes and returns the first timer that is due at `now`. Null if there is none.
  Timer* take_due(Clock::time_point now) noexcept {
    const auto first = timers_.begin();
    if (first == timers_.end() || first->when_ > now) return nullptr;
    Timer& timer = *first;
    timers_.erase(first);
    note_first();
    return &timer;
  }

  // Returns false if the call is queued already.
  bool post(Deferred& call) noexcept {
    if (call.hook_.is_linked()) return false;
    deferred_.push_back(call);
    queued_.deferred.fetch_add(1, std::memory_order_seq_cst);
    return true;
  }
  void cancel(Deferred& call) noexcept {
    if (!call.hook_.is_linked()) return;
    deferred_.erase(deferred_.iterator_to(call));
    queued_.deferred.fetch_sub(1, std::memory_order_relaxed);
  }
  // Removes and returns the first deferred call. Null if there is none.
  Deferred* take_deferred() noexcept {
    if (deferred_.empty()) return nullptr;
    Deferred& first = deferred_.front();
    deferred_.pop_front();
    queued_.deferred.fetch_sub(1, std::memory_order_relaxed);
    return &first;
  }

 private:
  using TimerHook =
      boost::intrusive::member_hook<Timer, boost::intrusive::set_member_hook<>, &Timer::hook_>;
  using DeferredHook = boost::intrusive::member_hook<Deferred, boost::intrusive::list_member_hook<>,
                                                     &Deferred::hook_>;

  void note_first() noexcept {
    const Clock::time_point first =
        timers_.empty() ? Clock::time_point::max() : timers_.begin()->when_;
    queued_.timer.store(first.time_since_epoch().count(), std::memory_order_seq_cst);
  }

  QueuedCalls& queued_;
  boost::intrusive::multiset<Timer, boost::intrusive::compare<Timer::Earlier>, TimerHook> timers_;
  boost::intrusive::list<Deferred, DeferredHook> deferred_;
};

}  // namespace udapl
