// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// Whether a signal handler may have run in the calling thread, which found EINTR: false if the
// program has none for a signal that could have come. Then the process was stopped and continues,
// after which Linux lets some calls fail with EINTR, or another thread has changed the user.
// Handlers for what instructions raise, and for abort(), do not count. Reads /proc; true if that is
// not possible.
bool handler_may_have_run() noexcept;

}  // namespace udapl
