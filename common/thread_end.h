// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl {

// What to do when a thread ends, in this order.
enum class ThreadEnd : std::uint8_t {
  kSleep,  // give up what a sleep has claimed that a signal handler has left by longjmp
  kVisit   // end the visits of such sleeps, after which their IA may be destroyed
};
inline constexpr int kThreadEnds = 2;

// Makes the calling thread call `run` when it ends. Each kind has one function per library; further
// calls have no effect. Cheap enough to be called in each wait.
void at_thread_end(ThreadEnd when, void (*run)() noexcept) noexcept;
// Calls the function of this kind now, if there is one, because the calling thread is about to end.
void run_now(ThreadEnd when) noexcept;

}  // namespace udapl
