// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/types.h>

namespace udapl {

// gettid() of the calling thread, which makes a system call only the first time. A forked child has
// a different one.
[[nodiscard]] pid_t thread_id() noexcept;

}  // namespace udapl
