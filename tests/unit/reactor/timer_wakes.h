// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>

namespace udapl::test {

// How often a thread of this process has woken a parked service thread by its timer: the other
// settings of such timers have absolute times.
[[nodiscard]] long timer_wakes() noexcept;

// While true, a service thread that is about to park does not get so far: it sets no timer.
extern std::atomic<bool> parks_late;

// Whether the calling thread is the service thread of a reactor made by make_reactor().
[[nodiscard]] bool is_service_thread() noexcept;

}  // namespace udapl::test
