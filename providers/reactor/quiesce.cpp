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
  Wait(Reactor& reactor, const void* object) noexcept : reactor_(reactor), object_(object) {}
  ~Wait() { end(); }

  // The driver keeps this thread waiting as long as that very call runs.
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override {
    const ScopedLock guard(reactor_.lock_);
    // If the call ends meanwhile, the answer does not matter: the waiting thread will find that.
    return reactor_.running_.load(std::memory_order_relaxed) == object_ &&
           other.is_thread(reactor_.driver_.load(std::memory_order_relaxed));
  }

 private:
  Reactor& reactor_;
  const void* const object_;
};

bool Reactor::calls(const void* object) noexcept {
  const ScopedLock guard(lock_);
  return running_.load(std::memory_order_acquire) == object;  // pairs with serve()
}

// The object is being destroyed by its own call, or by a thread for which that call waits. The call
// does not touch the object any more, and its address may soon be reused. Other threads need not
// wait for the call, either.
void Reactor::disown(const void* object) noexcept {
  if (calls(object)) end_call();
}

void Reactor::end_call() noexcept {
  bool has_waiters = false;
  {
    const ScopedLock guard(lock_);
    has_waiters = end_call_locked();
  }
  if (has_waiters) call_ended_.signal();
}

void Reactor::wait_while_running(const void* object) noexcept {
  if (driven_here()) return disown(object);
  if (!calls(object)) return;
  Wait wait(*this, object);
  // The other driver is inside that call, in an application function that waits for this thread.
  // There the call itself could destroy the object, so this thread may, too.
  if (!wait.begin()) {
    UDAPL_TRACE(kDetail,
                "a call waits for the thread that destroys its object: not waiting for that call");
    return disown(object);
  }
  while (true) {
    const std::uint32_t seen = call_ended_.value();
    {
      const ScopedLock guard(lock_);
      if (running_.load(std::memory_order_acquire) != object) break;
      quiescers_.fetch_add(1, std::memory_order_relaxed);
    }
    // The driver ends a call, changes the role, then looks for waiting threads; we are counted as
    // one, change the role, too, then look for the call. The later change sees what preceded the
    // earlier one, so either we see the end, or the driver sees us.
    role_.fetch_or(0, std::memory_order_seq_cst);
    if (calls(object)) call_ended_.wait(seen, std::nullopt);
    const ScopedLock guard(lock_);
    quiescers_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace udapl
