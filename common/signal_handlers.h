// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// For a thread whose system call failed with EINTR: whether a signal handler may have run. False if
// the program has no handler for a signal that may have arrived. The EINTR then has another cause:
// the process was stopped and has continued, or another thread has changed the user id (setuid).
// Handlers of signals that instructions raise (SIGSEGV), and of SIGABRT, do not count. Reads /proc;
// returns true if that is not possible.
bool handler_may_have_run() noexcept;

}  // namespace udapl
