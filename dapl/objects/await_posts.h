// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/objects/object.h"

namespace udapl::dapl {

// Waits until no thread is inside a post on `object` that NoLock has let in (guard.h). Posts that
// begin later see everything that was written before the call: write there first that they may not
// proceed. Waits for at most one second, because the thread inside may never leave: it may be the
// calling thread, in a signal handler that has interrupted its post, or it may have ended in the
// post.
void await_posts(const ObjectHeader& object) noexcept;

}  // namespace udapl::dapl
