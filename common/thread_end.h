// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl {

// What is to be done when a thread ends, in this order.
enum class ThreadEnd : std::uint8_t {
  kSleep,  // giving up what a sleep has claimed that a signal handler has left by longjmp
  kVisit   // ending the visits of such sleeps: their IA may be destroyed from then on
};
inline constexpr int kThreadEnds = 2;

// Has the calling thread call `run` when it ends. Each kind has one function per library: calling
// it again has no effect. Cheap enough for each wait.
void at_thread_end(ThreadEnd when, void (*run)() noexcept) noexcept;
// Calls it now, if there is one: the calling thread is about to end.
void run_now(ThreadEnd when) noexcept;

}  // namespace udapl
