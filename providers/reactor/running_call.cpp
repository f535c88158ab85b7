// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Two driving threads, each of which destroys an object that the other one is calling (proxy agents
// of two IAs, each of which frees the other's EP), would wait for each other forever; see
// common/waiting.h.
#include "providers/reactor/running_call.h"

#include "common/tracing/trace.h"
#include "common/waiting.h"

namespace udapl {

// A thread that waits for the end of a call.
struct RunningCall::Wait final : Waiting {
  Wait(RunningCall& running, const void* object) noexcept : running_(running), object_(object) {}
  ~Wait() { end(); }

  // The driving thread keeps this thread waiting as long as that very call runs.
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override {
    const Held guard(running_.lock_);
    // If the call ends meanwhile, the answer does not matter: the waiting thread will find that.
    return running_.object_.load(std::memory_order_relaxed) == object_ &&
           other.is_thread(running_.role_.holder());
  }

 private:
  RunningCall& running_;
  const void* const object_;
};

bool RunningCall::is(const void* object) noexcept {
  const Held guard(lock_);
  return object_.load(std::memory_order_acquire) == object;  // pairs with end_with()
}

// The object is being destroyed by its own call, or by a thread for which that call waits. The call
// does not touch the object any more, and its address may soon be reused. Other threads need not
// wait for the call, either.
void RunningCall::disown(const void* object) noexcept {
  if (is(object)) end();
}

void RunningCall::wait_for_end(const void* object) noexcept {
  if (role_.held_here()) return disown(object);
  if (!is(object)) return;
  Wait wait(*this, object);
  // The other driving thread is inside that call, in an application function that waits for this
  // thread. There the call itself could destroy the object, so this thread may, too.
  if (!wait.begin()) {
    UDAPL_TRACE(kDetail,
                "a call waits for the thread that destroys its object: not waiting for that call");
    return disown(object);
  }
  while (true) {
    const std::uint32_t seen = ended_.value();
    {
      const Held guard(lock_);
      if (object_.load(std::memory_order_acquire) != object) break;
      waiting_.fetch_add(1, std::memory_order_relaxed);
    }
    // The driving thread ends a call, changes the role, then looks for waiting threads; we are
    // counted as one, change the role, too, then look for the call. The later change sees what
    // preceded the earlier one, so either we see the end, or the driving thread sees us.
    role_.synchronize();
    if (is(object)) ended_.wait(seen, std::nullopt);
    const Held guard(lock_);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace udapl
