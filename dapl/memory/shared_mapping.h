// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

namespace udapl::dapl {

// Whether every byte of [address, address + length) is mapped and shared with other processes
// (MAP_SHARED or System V). Also false if the kernel does not tell. Blocks briefly (procfs).
// REQUIRES: length > 0 and no wrap.
[[nodiscard]] bool is_shared_mapping(DAT_VADDR address, DAT_VLEN length) noexcept;

}  // namespace udapl::dapl
