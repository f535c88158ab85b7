// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/types.h>

namespace udapl {

// gettid() of the calling thread, without a system call from the second time on. A child that was
// forked has another one.
[[nodiscard]] pid_t thread_id() noexcept;

}  // namespace udapl
