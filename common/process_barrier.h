// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// The rare side of a protocol between threads whose frequent side has no fence: has every thread of
// the process execute a full fence, by the system call membarrier. Without it (old kernels,
// sandboxes) the caller sleeps for a millisecond, in which every processor has long written back
// what its thread stored before. Thread-safe; takes microseconds. Not a cancellation point.
void process_barrier() noexcept;

// Prepares for it. Cheap while the process has one thread; otherwise the first call takes
// milliseconds.
void prepare_process_barrier() noexcept;

}  // namespace udapl
