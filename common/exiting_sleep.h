// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// Programs end threads by a signal whose handler calls pthread_exit(). If that unwound a thread
// from within a sleep of this library, it would end the process, because the unwinding would pass
// noexcept functions. So the thread leaves the sleep by longjmp (docs/adr/0070), and is unwound
// from call_that_sleeps() on. Its exit value is then NULL: that of the handler is lost.

// Returns call(context). Not noexcept: see above. When the thread is unwound, `context` is no
// longer used.
unsigned call_that_sleeps(unsigned (*call)(void* context), void* context);

// Used by sleep_in() only: unless woken() was called, the destructor leaves the sleep.
class SleepGuard {
 public:
  SleepGuard() noexcept = default;
  ~SleepGuard() {
    if (asleep_) [[unlikely]]
      leave();
  }
  SleepGuard(const SleepGuard&) = delete;
  SleepGuard& operator=(const SleepGuard&) = delete;
  void woken() noexcept { asleep_ = false; }

 private:
  // Does nothing outside call_that_sleeps().
  static void leave() noexcept;

  bool asleep_ = true;
};

// Makes a system call that sleeps and preserves errno. Neither noexcept nor inlined, so that the
// guard is destroyed when the thread is unwound. REQUIRES: the compiler does not know that
// `system_call` throws nothing.
template <class SystemCall>
[[gnu::noinline]] auto sleep_in(SystemCall system_call) {
  SleepGuard guard;
  const auto result = system_call();
  guard.woken();
  return result;
}

// syscall(2), which the C library declares to throw nothing.
extern long (*volatile const raw_system_call)(long number, ...);

}  // namespace udapl
