// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <type_traits>

#include "common/result.h"
#include "common/trace.h"
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

// Calls that programs make in their loops: the provider traces what they do, not that they were
// called.
template <auto Slot>
inline constexpr bool kIsHot = false;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::ep_post_send_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::ep_post_send_with_invalidate_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::ep_post_recv_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::ep_post_rdma_read_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::ep_post_rdma_write_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::ep_post_rdma_read_to_rmr_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::ep_get_status_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::rmr_bind_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::srq_post_recv_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::evd_dequeue_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::evd_wait_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::evd_post_se_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::cno_wait_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::get_consumer_context_func> = true;
template <>
inline constexpr bool kIsHot<&DAT_PROVIDER::set_consumer_context_func> = true;

// Records of a call and its return.
[[gnu::cold, gnu::noinline]] void trace_call(const char* function, DAT_HANDLE handle) noexcept;
[[gnu::cold, gnu::noinline]] DAT_RETURN trace_return(const char* function, DAT_HANDLE handle,
                                                     DAT_RETURN code) noexcept;

// Calls the provider; `handle` is the consumer's, `object` the provider's.
template <auto Slot, class... Args>
inline DAT_RETURN call_provider([[maybe_unused]] const char* function,
                                [[maybe_unused]] DAT_HANDLE handle, DAT_HANDLE object,
                                Args... args) {
  if constexpr (!kIsHot<Slot>) {
    if (trace::enabled(trace::kCalls)) [[unlikely]] {
      trace_call(function, handle);
      return trace_return(function, handle, (provider_of(object).*Slot)(object, args...));
    }
  }
  return (provider_of(object).*Slot)(object, args...);
}

// The first argument is an object of the provider, whose first word leads to the slot: a test for
// null and for IA numbers (an IA where another object belongs), two loads and a jump.
template <auto Slot, DAT_RETURN_SUBTYPE NullSubtype, class... Args>
inline DAT_RETURN forward(const char* function, DAT_HANDLE handle, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  if (IaTable::is_number(handle)) [[unlikely]]
    return refuse_handle(function, handle, NullSubtype);
  return call_provider<Slot>(function, handle, handle, args...);
}

// The first argument is an IA; the provider gets its own pointer for it.
template <auto Slot, class... Args>
inline DAT_RETURN forward_ia(const char* function, DAT_IA_HANDLE ia, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  const DAT_IA_HANDLE provider_ia = ia_table().resolve(ia);
  if (provider_ia == nullptr) [[unlikely]]
    return refuse_handle(function, ia, DAT_INVALID_HANDLE_IA);
  return call_provider<Slot>(function, ia, provider_ia, args...);
}

// The first argument is an IA or any other object.
template <auto Slot, class... Args>
inline DAT_RETURN forward_either(const char* function, DAT_HANDLE handle, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  const DAT_IA_HANDLE provider_ia = ia_table().pointer_of(handle);
  if (provider_ia != nullptr) handle = provider_ia;
  if (IaTable::is_number(handle)) [[unlikely]]
    return refuse_handle(function, handle, DAT_INVALID_HANDLE1);
  return call_provider<Slot>(function, handle, handle, args...);
}

}  // namespace udapl::dat
