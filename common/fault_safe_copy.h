// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

namespace udapl {

// Copies `size` bytes, at most PIPE_BUF, from an address that need not be valid. Returns false if
// not all of them can be read; the contents of `to` are then undefined. The kernel copies, because
// it returns an error where a load would crash. If process_vm_readv is forbidden, uses a pipe, and
// also returns false if there is no descriptor left. No state, no cancellation point.
[[nodiscard]] bool copy_fault_safe(void* to, const void* from, std::size_t size) noexcept;

// Copies a string from an address that need not be valid. Returns false if it cannot be read to its
// end, or has no end within `room` bytes.
[[nodiscard]] bool copy_text_fault_safe(char* to, const char* from, std::size_t room) noexcept;

}  // namespace udapl
