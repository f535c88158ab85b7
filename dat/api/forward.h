// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <type_traits>

#include "common/result.h"
#include "dat/api/instance.h"
#include "dat/ia_table.h"
#include "dat/provider_of.h"

// How an API function reaches its provider. Each forwarder is one call of one of the three
// templates here; the slot's type is checked against the function's. No lock, no allocation, no
// exception handling: a thread that waits in a provider may be cancelled.

// Marks the functions that libdat2 exports; the version script names them too.
#define UDAPL_API __attribute__((visibility("default")))

namespace udapl::dat {

// Traces a refused handle and returns the error.
[[gnu::cold, gnu::noinline]] DAT_RETURN refuse_handle(const char* function, DAT_HANDLE handle,
                                                      DAT_RETURN_SUBTYPE subtype) noexcept;

template <auto Slot, class... Args>
inline constexpr bool kSlotTakes =
    std::is_same_v<std::remove_cvref_t<decltype(static_cast<DAT_PROVIDER*>(nullptr)->*Slot)>,
                   DAT_RETURN (*)(DAT_HANDLE, Args...)>;

// The first argument is an object of the provider, whose first word leads to the slot: a test for
// null and for IA numbers (an IA where another object belongs), two loads and a jump.
template <auto Slot, DAT_RETURN_SUBTYPE NullSubtype, class... Args>
inline DAT_RETURN forward(const char* function, DAT_HANDLE handle, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  if (IaTable::is_number(handle)) [[unlikely]]
    return refuse_handle(function, handle, NullSubtype);
  return (provider_of(handle).*Slot)(handle, args...);
}

// The first argument is an IA; the provider gets its own pointer for it.
template <auto Slot, class... Args>
inline DAT_RETURN forward_ia(const char* function, DAT_IA_HANDLE ia, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  const DAT_IA_HANDLE provider_ia = ia_table().resolve(ia);
  if (provider_ia == nullptr) [[unlikely]]
    return refuse_handle(function, ia, DAT_INVALID_HANDLE_IA);
  return (provider_of(provider_ia).*Slot)(provider_ia, args...);
}

// The first argument is an IA or any other object.
template <auto Slot, class... Args>
inline DAT_RETURN forward_either(const char* function, DAT_HANDLE handle, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  const DAT_IA_HANDLE provider_ia = ia_table().pointer_of(handle);
  if (provider_ia != nullptr) handle = provider_ia;
  if (IaTable::is_number(handle)) [[unlikely]]
    return refuse_handle(function, handle, DAT_INVALID_HANDLE1);
  return (provider_of(handle).*Slot)(handle, args...);
}

}  // namespace udapl::dat
