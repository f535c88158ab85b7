// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

namespace udapl::dat {

// The table of the provider that `object` belongs to: the first word of every provider object.
// REQUIRES: a provider's object, not the number of an IA.
inline const DAT_PROVIDER& provider_of(DAT_HANDLE object) noexcept {
  return **static_cast<const DAT_PROVIDER* const*>(object);
}

}  // namespace udapl::dat
