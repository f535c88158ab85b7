// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <type_traits>

#include "common/result.h"
#include "common/tracing/trace.h"
#include "dat/api/instance.h"
#include "dat/ia_table.h"
#include "dat/known_tables.h"
#include "dat/provider_of.h"

// How an API function calls its provider. Each forwarder is one call of one of the three templates
// here; the slot's type is checked against the function's. No lock, no allocation, no exception
// handling: a thread that waits in a provider may be cancelled.

// Marks the functions that libdat2 exports; the version script names them too.
#define UDAPL_API __attribute__((visibility("default")))

namespace udapl::dat {

// Traces a refused handle and returns the error.
[[gnu::cold, gnu::noinline]] DAT_RETURN refuse_handle(const char* function, DAT_HANDLE handle,
                                                      DAT_RETURN_SUBTYPE subtype,
                                                      trace::Level level = trace::kNormal) noexcept;

template <auto Slot, class... Args>
inline constexpr bool kSlotTakes =
    std::is_same_v<std::remove_cvref_t<decltype(static_cast<DAT_PROVIDER*>(nullptr)->*Slot)>,
                   DAT_RETURN (*)(DAT_HANDLE, Args...)>;

template <auto Value>
struct Constant {};
template <auto Slot, auto... Others>
inline constexpr bool kIsOneOf = (std::is_same_v<Constant<Slot>, Constant<Others>> || ...);

// The data path: detects only null and IA numbers as invalid handles. It spends no instruction on
// other invalid handles, nor on slots that the provider has left empty.
template <auto Slot>
inline constexpr bool kIsHot =
    kIsOneOf<Slot, &DAT_PROVIDER::ep_post_send_func,
             &DAT_PROVIDER::ep_post_send_with_invalidate_func, &DAT_PROVIDER::ep_post_recv_func,
             &DAT_PROVIDER::ep_post_rdma_read_func, &DAT_PROVIDER::ep_post_rdma_write_func,
             &DAT_PROVIDER::ep_post_rdma_read_to_rmr_func, &DAT_PROVIDER::rmr_bind_func,
             &DAT_PROVIDER::srq_post_recv_func, &DAT_PROVIDER::evd_dequeue_func>;
// Calls that programs make in their loops: the provider traces their effects, and the calls
// themselves are not traced.
template <auto Slot>
inline constexpr bool kIsFrequent =
    kIsHot<Slot> ||
    kIsOneOf<Slot, &DAT_PROVIDER::ep_get_status_func, &DAT_PROVIDER::evd_wait_func,
             &DAT_PROVIDER::evd_post_se_func, &DAT_PROVIDER::cno_wait_func,
             &DAT_PROVIDER::get_consumer_context_func, &DAT_PROVIDER::set_consumer_context_func>;

template <auto Slot>
inline constexpr bool kIsClose = false;
template <>
inline constexpr bool kIsClose<&DAT_PROVIDER::ia_close_func> = true;

// Records of a call and its return.
[[gnu::cold, gnu::noinline]] void trace_call(const char* function, DAT_HANDLE handle) noexcept;
[[gnu::cold, gnu::noinline]] DAT_RETURN trace_return(const char* function, DAT_HANDLE handle,
                                                     DAT_RETURN code) noexcept;

// Whether `handle` is an object of a provider, as far as can be determined. For calls that are not
// hot. A handle that a program passes by mistake may be any readable address.
template <auto Slot>
[[nodiscard]] inline bool is_object(DAT_HANDLE handle) noexcept {
  if (!is_object_address(handle)) return false;
  const DAT_PROVIDER* const table = *static_cast<const DAT_PROVIDER* const*>(handle);  // or null
  if (known_tables().has(table)) [[likely]]
    return true;
  DAT_PROVIDER copy{};
  return read_table(table, copy) && is_function(reinterpret_cast<const void*>(copy.*Slot));
}

// Calls the provider; `handle` is the consumer's, `object` the provider's.
template <auto Slot, class... Args>
inline DAT_RETURN call_provider([[maybe_unused]] const char* function,
                                [[maybe_unused]] DAT_HANDLE handle, DAT_HANDLE object,
                                Args... args) {
  if constexpr (!kIsFrequent<Slot>) {
    if (trace::enabled(trace::kCalls)) [[unlikely]] {
      trace_call(function, handle);
      return trace_return(function, handle, call_slot<Slot>(function, object, args...));
    }
  }
  if constexpr (kIsHot<Slot>)
    return (provider_of(object).*Slot)(object, args...);
  else
    return call_slot<Slot>(function, object, args...);
}

// The first argument is an object of the provider, whose first word points to the table with the
// slot. If hot: a test for null and for IA numbers (an IA in place of another object), two loads
// and a jump.
template <auto Slot, DAT_RETURN_SUBTYPE NullSubtype, class... Args>
inline DAT_RETURN forward(const char* function, DAT_HANDLE handle, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  if (kIsHot<Slot> ? IaTable::is_number(handle) : !is_object<Slot>(handle)) [[unlikely]]
    return refuse_handle(function, handle, NullSubtype);
  return call_provider<Slot>(function, handle, handle, args...);
}

// The first argument is an IA; the provider gets its own pointer for it.
template <auto Slot, class... Args>
inline DAT_RETURN forward_ia(const char* function, DAT_IA_HANDLE ia, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  const DAT_IA_HANDLE provider_ia = ia_table().resolve(ia);
  if (provider_ia == nullptr) [[unlikely]] {
    // A wrong IA is shown as an error, because most of these calls create an object. Not for close:
    // programs close IAs that they never opened, and expect the failure.
    return refuse_handle(function, ia, DAT_INVALID_HANDLE_IA,
                         kIsClose<Slot> ? trace::kNormal : trace::kError);
  }
  return call_provider<Slot>(function, ia, provider_ia, args...);
}

// The first argument is an IA or any other object.
template <auto Slot, class... Args>
inline DAT_RETURN forward_either(const char* function, DAT_HANDLE handle, Args... args) {
  static_assert(kSlotTakes<Slot, Args...>);
  const DAT_IA_HANDLE provider_ia = ia_table().pointer_of(handle);
  if (provider_ia != nullptr) handle = provider_ia;
  if (kIsHot<Slot> ? IaTable::is_number(handle) : !is_object<Slot>(handle)) [[unlikely]]
    return refuse_handle(function, handle, DAT_INVALID_HANDLE1);
  return call_provider<Slot>(function, handle, handle, args...);
}

}  // namespace udapl::dat
