// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>

namespace udapl {

// The rights of a mapping, as in /proc/self/maps: "rw-p".
using MappingTest = bool (*)(const char* rights);

// Whether every byte of [address, address + length) is in a mapping of this process whose rights
// pass the test. nullopt, with errno set, if the kernel does not tell. Blocks briefly (procfs).
// REQUIRES: length > 0 and no wrap.
[[nodiscard]] std::optional<bool> all_mappings(std::uint64_t address, std::uint64_t length,
                                               MappingTest pass) noexcept;

}  // namespace udapl
