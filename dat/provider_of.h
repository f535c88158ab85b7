// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include "common/result.h"

namespace udapl::dat {

// The table of the provider that `object` belongs to: the first word of every provider object.
// REQUIRES: a provider's object, not the number of an IA.
inline const DAT_PROVIDER& provider_of(DAT_HANDLE object) noexcept {
  return **static_cast<const DAT_PROVIDER* const*>(object);
}

// Traces that the provider has no function for a call, and returns DAT_NOT_IMPLEMENTED.
[[gnu::cold, gnu::noinline]] DAT_RETURN not_implemented(const char* function) noexcept;

// Calls the function in a slot of the object's provider. Providers for fewer functions than DAT has
// may leave slots empty; `function` is the name for the trace.
template <auto Slot, class... Args>
DAT_RETURN call_slot(const char* function, DAT_HANDLE object, Args... args) {
  const auto provider_function = provider_of(object).*Slot;
  if (provider_function == nullptr) [[unlikely]]
    return not_implemented(function);
  return provider_function(object, args...);
}

}  // namespace udapl::dat
