// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

inline void cpu_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until another thread has executed a few more instructions: pauses at first, then yields the
// processor, so that a preempted thread can run, and then sleeps, because a thread with a real-time
// priority does not yield to threads of a lower priority. Not a cancellation point.
class Backoff {
 public:
  void wait() noexcept {
    if (turns_ < kPauses)
      cpu_pause();
    else
      let_others_run();
    ++turns_;
  }
  // Whether it has waited long enough to give up: some 0.4 s.
  [[nodiscard]] bool waited_long() const noexcept { return sleeps_ >= kManySleeps; }

 private:
  static constexpr int kPauses = 64;
  static constexpr int kYields = 64;
  static constexpr int kManySleeps = 5000;

  [[gnu::cold, gnu::noinline]] void let_others_run() noexcept;

  int turns_ = 0;
  int sleeps_ = 0;
};

}  // namespace udapl
