// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl::verbs {

// Memory barriers in all threads of the process, done by the kernel (membarrier), for the rare side
// of an asymmetric protocol whose frequent side has none. Thread-safe.

// Can this kernel do it? The first call tells the kernel that we will.
[[nodiscard]] bool has_process_barrier() noexcept;
// REQUIRES: has_process_barrier(). Takes microseconds.
void process_barrier() noexcept;

}  // namespace udapl::verbs
