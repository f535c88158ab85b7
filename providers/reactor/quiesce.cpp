// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: waiting for the end of a call. Who destroys something waits until it is not being called
// any more. Two drivers that destroy what the other one is just calling (proxy agents of two IAs,
// each of which frees the other's EP) would wait for each other for ever.
#include "providers/reactor/reactor.h"

#include "common/tracing/trace.h"

namespace udapl {

namespace {

SpinLock waits_lock;  // before the locks of reactors

}  // namespace

// A thread that waits for the end of a call. All of the process are in a list.
struct Reactor::Wait {
  const pthread_t thread;
  Reactor& reactor;
  const void* const who;
  Wait* next = nullptr;

  static Wait* first UDAPL_GUARDED_BY(waits_lock);

  static const Wait* of(pthread_t thread) noexcept UDAPL_REQUIRES(waits_lock) {
    const Wait* wait = first;
    while (wait != nullptr && ::pthread_equal(wait->thread, thread) == 0) wait = wait->next;
    return wait;
  }
  void enter() noexcept UDAPL_REQUIRES(waits_lock) {
    next = first;
    first = this;
  }
  void leave() noexcept UDAPL_REQUIRES(waits_lock) {
    Wait** link = &first;
    while (*link != this) link = &(*link)->next;
    *link = next;
  }
  // Does the driver that we wait for wait for us, by however many others?
  [[nodiscard]] bool closes_a_circle() const noexcept UDAPL_REQUIRES(waits_lock) {
    for (const Wait* wait = this; wait != nullptr;) {
      if (!wait->reactor.calls(wait->who)) return false;  // it has ended: that thread goes on
      const pthread_t driver = wait->reactor.driver_.load(std::memory_order_relaxed);
      if (::pthread_equal(driver, thread) != 0) return true;
      wait = of(driver);
    }
    return false;
  }
};

Reactor::Wait* Reactor::Wait::first = nullptr;

bool Reactor::calls(const void* who) noexcept {
  const ScopedLock guard(lock_);
  return running_ == who;
}

// Its own call, or one that will not go on before we do, has destroyed it: the call touches it no
// more, and the address may soon name something else.
void Reactor::disown(const void* who) noexcept {
  const ScopedLock guard(lock_);
  if (running_ == who) running_ = nullptr;
}

void Reactor::end_call() noexcept {
  bool somebody_waits = false;
  {
    const ScopedLock guard(lock_);
    running_ = nullptr;
    somebody_waits = quiescers_ != 0;
  }
  if (somebody_waits) call_ended_.signal();
}

void Reactor::wait_while_running(const void* who) noexcept {
  if (driven_here()) return disown(who);
  if (!calls(who)) return;
  Wait wait{::pthread_self(), *this, who};
  bool circle = false;
  {
    const ScopedLock guard(waits_lock);
    circle = wait.closes_a_circle();
    if (!circle) wait.enter();
  }
  // The other driver is inside that call, in a function of the application that has just destroyed
  // something of ours: it is where its own call may destroy the object, so we may, too.
  if (circle) {
    UDAPL_TRACE(kDetail, "two threads destroy what the other one calls: this one does not wait");
    return disown(who);
  }
  while (true) {
    const std::uint32_t seen = call_ended_.value();
    {
      const ScopedLock guard(lock_);
      if (running_ != who) break;
      ++quiescers_;
    }
    call_ended_.wait(seen, std::nullopt);
    const ScopedLock guard(lock_);
    --quiescers_;
  }
  const ScopedLock guard(waits_lock);
  wait.leave();
}

}  // namespace udapl
