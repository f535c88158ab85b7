// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: waiting for the end of a call. A thread that destroys an object waits until the object
// is no longer being called. Two drivers, each of which destroys an object that the other one is
// calling (proxy agents of two IAs, each of which frees the other's EP), would wait for each other
// forever; see common/waiting.h.
#include "providers/reactor/reactor.h"

#include "common/tracing/trace.h"
#include "common/waiting.h"

namespace udapl {

// A thread that waits for the end of a call.
struct Reactor::Wait final : Waiting {
  Wait(Reactor& reactor, const void* who) noexcept : reactor_(reactor), who_(who) {}
  ~Wait() { end(); }

  // The driver keeps this thread waiting as long as that very call runs.
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override {
    const ScopedLock guard(reactor_.lock_);
    // Ending the call takes the lock, so the driver cannot change here.
    return reactor_.running_ == who_ &&
           other.is_thread(reactor_.driver_.load(std::memory_order_relaxed));
  }

 private:
  Reactor& reactor_;
  const void* const who_;
};

bool Reactor::calls(const void* who) noexcept {
  const ScopedLock guard(lock_);
  return running_ == who;
}

// The object is being destroyed by its own call, or by a thread for which that call waits. The call
// does not touch the object any more, and its address may soon be reused. Other threads need not
// wait for the call, either.
void Reactor::disown(const void* who) noexcept {
  if (calls(who)) end_call();
}

void Reactor::end_call() noexcept {
  bool somebody_waits = false;
  {
    const ScopedLock guard(lock_);
    somebody_waits = end_call_locked();
  }
  if (somebody_waits) call_ended_.signal();
}

void Reactor::wait_while_running(const void* who) noexcept {
  if (driven_here()) return disown(who);
  if (!calls(who)) return;
  Wait wait(*this, who);
  // The other driver is inside that call, in an application function that waits for this thread.
  // There the call itself could destroy the object, so this thread may, too.
  if (!wait.begin()) {
    UDAPL_TRACE(kDetail,
                "a call waits for the thread that destroys its object: not waiting for that call");
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
}

}  // namespace udapl
