// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/dat_registry.h>

#include <string>

// Replaces libdat2 in programs that test the provider core alone: the three functions that a
// provider imports, and the information about them that tests need.
namespace udapl::fake {

// The table registered for a name and thread safety, or null.
[[nodiscard]] const DAT_PROVIDER* registered(const std::string& ia_name, bool thread_safe);
// The code that the next dat_registry_add_provider returns.
void refuse_registration(DAT_RETURN code);

// Assigns the small number that applications use as the handle of an IA.
[[nodiscard]] DAT_IA_HANDLE note_open(DAT_IA_HANDLE raw);
void note_close(DAT_IA_HANDLE raw);

}  // namespace udapl::fake
