// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Two driving threads would wait for each other forever if each destroyed an object that the other
// one is calling: proxy agents of two IAs may each free an EP of the other IA. common/waiting.h
// detects that.
#include "providers/reactor/running_call.h"

#include "common/tracing/trace.h"
#include "common/waiting.h"

namespace udapl {

// A thread that waits for the end of a call.
struct RunningCall::Wait final : Waiting {
  Wait(RunningCall& running, const void* object) noexcept : running_(running), object_(object) {}
  ~Wait() { end(); }

  // The driving thread blocks this thread as long as it calls the object.
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override {
    const Held guard(running_.lock_);
    // If the call ends meanwhile, the answer does not matter: the waiting thread will see that.
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

// Called when the object is destroyed by its own call, or by a thread for which that call waits.
// The call does not access the object any more, whose address may soon be reused, so no other
// thread need wait for the call either.
void RunningCall::disown(const void* object) noexcept {
  if (is(object)) end();
}

void RunningCall::wait_for_end(const void* object) noexcept {
  if (role_.held_here()) return disown(object);
  if (!is(object)) return;
  Wait wait(*this, object);
  // The driving thread is inside the call, in an application function that waits for this thread.
  // The application function could destroy the object itself, so this thread may as well.
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
    // The driving thread ends the call, changes the role, then checks for waiting threads. This
    // thread counts itself as waiting, changes the role as well, then checks for the call. The
    // thread that changes the role later sees what the other one did before: so either this thread
    // sees that the call has ended, or the driving thread sees this one.
    role_.synchronize();
    if (is(object)) ended_.wait(seen, std::nullopt);
    const Held guard(lock_);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace udapl
