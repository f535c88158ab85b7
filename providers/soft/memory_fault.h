// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// Why memory that is to be registered cannot be used: a static text, or null if it can be, as far
// as a few system calls tell (docs/adr/0046). Finds every hole, but looks for the right to read, or
// to write if it `writes`, only in the first and the last page, which it makes present. Where the
// kernel does not tell, nothing is wrong.
// REQUIRES: length > 0 and no wrap.
[[nodiscard]] const char* memory_fault(std::uint64_t address, std::uint64_t length,
                                       bool writes) noexcept;

}  // namespace udapl::soft
