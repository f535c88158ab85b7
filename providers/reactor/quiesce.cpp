// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: waiting for the end of a call. Who destroys something waits until it is not being called
// any more. Two drivers that destroy what the other one is just calling (proxy agents of two IAs,
// each of which frees the other's EP) would wait for each other for ever; common/waiting.h.
#include "providers/reactor/reactor.h"

#include "common/tracing/trace.h"
#include "common/waiting.h"

namespace udapl {

// A thread that waits for the end of a call.
struct Reactor::Wait final : Waiting {
  Wait(Reactor& reactor, const void* who) noexcept : reactor_(reactor), who_(who) {}
  ~Wait() { end(); }

  // By the driver, as long as that very call runs.
  [[nodiscard]] bool is_kept_by(const Waiting& other) const noexcept override {
    const ScopedLock guard(reactor_.lock_);
    // Until the call has ended, which takes the lock, the driver stays the same.
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

// Its own call, or one that will not go on before we do, has destroyed it: the call touches it no
// more, and the address may soon name something else. Whoever else waits for it need not, either.
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
  // The other driver is inside that call, in a function of the application that waits for us: it is
  // where its own call may destroy the object, so we may, too.
  if (!wait.begin()) {
    UDAPL_TRACE(kDetail, "a call waits for the thread that destroys its object: it does not wait");
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
