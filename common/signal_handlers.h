// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// Whether a signal handler may have run in the calling thread, which found EINTR: false if the
// program has none for a signal that could have come. Then the EINTR has another cause: the process
// was stopped and has continued, or another thread has changed the user id (setuid). Handlers of
// signals that instructions raise (SIGSEGV), and of SIGABRT, do not count. Reads /proc; returns
// true if that is not possible.
bool handler_may_have_run() noexcept;

}  // namespace udapl
