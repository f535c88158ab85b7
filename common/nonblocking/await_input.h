// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"

namespace udapl {

// Waits until `fd` has input, an end or an error. Returns false if it has none by `until`.
[[nodiscard]] bool await_input(int fd, Clock::time_point until) noexcept;

}  // namespace udapl
