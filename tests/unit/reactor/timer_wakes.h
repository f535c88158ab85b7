// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl::test {

// How often a thread of this process has woken a parked service thread by its timer: the other
// settings of such timers have absolute times.
[[nodiscard]] long timer_wakes() noexcept;

}  // namespace udapl::test
