// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// Checks memory that is to be registered, with a few system calls (docs/adr/0046). Returns null if
// the memory seems to be usable, otherwise a static text that says why it is not. Finds every hole.
// Checks the right to read, or to write if `writes`, only for the first and the last page, which
// become present. Finds nothing that the kernel does not report.
// REQUIRES: length > 0 and no wrap.
[[nodiscard]] const char* memory_fault(std::uint64_t address, std::uint64_t length,
                                       bool writes) noexcept;

}  // namespace udapl::soft
