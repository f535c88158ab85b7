// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"

namespace udapl {

// Waits until there is something to read from `fd`, an end or an error included. False: not by
// `until`.
[[nodiscard]] bool await_input(int fd, Clock::time_point until) noexcept;

}  // namespace udapl
