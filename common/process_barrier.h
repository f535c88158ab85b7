// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// Makes every thread of the process execute a full memory fence, by the system call membarrier: for
// a protocol between two threads, one of which is executed so often that it has no fence of its
// own. If the kernel has no such call, or a sandbox forbids it, the caller sleeps for a
// millisecond, after which all earlier stores of other threads are visible. Thread-safe; takes
// microseconds. Not a cancellation point.
void process_barrier() noexcept;

// Prepares for process_barrier(). Cheap while the process has one thread; otherwise the first call
// takes milliseconds.
void prepare_process_barrier() noexcept;

}  // namespace udapl
