// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/objects/object.h"

namespace udapl::dapl {

// Returns when no thread is inside a post on `object` that NoLock has let in (guard.h): those that
// begin later see everything that was written before the call, and must find there that they may
// not proceed. Waits for one second at most: the thread may be the caller, which a signal handler
// has interrupted in its post, or may have ended in the middle of it.
void await_posts(const ObjectHeader& object) noexcept;

}  // namespace udapl::dapl
