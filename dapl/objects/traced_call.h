// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/not_cancelled.h"
#include "common/tracing/refusal.h"
#include "common/tracing/trace.h"

#include <algorithm>
#include <cstddef>

// Entries of the provider table whose calls and returns are traced. All trace records that the body
// of an entry makes are attributed to the handle of the call. For control calls only: a hot entry
// makes its own records.
namespace udapl::dapl {

template <std::size_t N>
struct CallName {
  consteval CallName(const char (&name)[N]) noexcept { std::copy_n(name, N, text); }
  char text[N];
};

// The records of a call; out of line, as they are rare.
[[gnu::cold, gnu::noinline]] void trace_call(trace::Level level, const char* function,
                                             DAT_HANDLE handle, trace::Identity identity) noexcept;
[[gnu::cold, gnu::noinline]] void trace_return(trace::Level level, const char* function,
                                               DAT_HANDLE handle, trace::Identity identity,
                                               DAT_RETURN code) noexcept;

// The handle that a call operates on; none if the first argument is a name.
[[nodiscard]] inline DAT_HANDLE subject_of(DAT_HANDLE handle) noexcept { return handle; }
[[nodiscard]] inline DAT_HANDLE subject_of(const char*) noexcept { return DAT_HANDLE_NULL; }

template <CallName Name, trace::Level At, class Body, class First>
[[gnu::always_inline]] inline DAT_RETURN traced(Body&& body, First first) {
  const DAT_HANDLE handle = subject_of(first);
  const trace::About about(handle);
  if (!trace::enabled(At)) [[likely]]
    return body();
  const trace::Identity identity = trace::describe(handle);  // the call may free it
  trace_call(At, Name.text, handle, identity);
  const DAT_RETURN code = body();
  trace_return(At, Name.text, handle, identity, code);
  return code;
}

// Whether an entry defers the cancellation of its thread. Entries that make no system call need
// not, and waits must not, because they are cancellation points.
enum class Defers : bool { kNothing, kCancellation };
template <Defers>
struct DeferredScope {};
template <>
struct DeferredScope<Defers::kCancellation> {
  NotCancelled scope;
};

template <auto Entry, CallName Name, trace::Level At, Defers D, class Type = decltype(Entry)>
struct TracedEntry;

template <auto Entry, CallName Name, trace::Level At, Defers D, class First, class... Rest>
struct TracedEntry<Entry, Name, At, D, DAT_RETURN (*)(First, Rest...)> {
  static DAT_RETURN call(First first, Rest... rest) {
    [[maybe_unused]] const DeferredScope<D> deferred;
    return traced<Name, At>([&] { return Entry(first, rest...); }, first);
  }
};
template <auto Entry, CallName Name, trace::Level At, Defers D, class First, class... Rest>
struct TracedEntry<Entry, Name, At, D, DAT_RETURN (*)(First, Rest...) noexcept> {
  static DAT_RETURN call(First first, Rest... rest) noexcept {
    [[maybe_unused]] const DeferredScope<D> deferred;
    return traced<Name, At>([&] { return Entry(first, rest...); }, first);
  }
};

// A call that creates or changes an object, traced from kCalls on. The reason for a refusal is
// reported to the user as an error.
template <auto Entry, CallName Name, class Type = decltype(Entry)>
struct SetupEntry;

template <auto Entry, CallName Name, class... Args>
struct SetupEntry<Entry, Name, DAT_RETURN (*)(Args...)> {
  [[gnu::always_inline]] static DAT_RETURN call(Args... args) {
    trace::Refusal refusal(Name.text);
    const DAT_RETURN code = Entry(args...);
    if (code != DAT_SUCCESS) refusal.report(code);
    return code;
  }
};
template <auto Entry, CallName Name, class... Args>
struct SetupEntry<Entry, Name, DAT_RETURN (*)(Args...) noexcept>
    : SetupEntry<Entry, Name, DAT_RETURN (*)(Args...)> {};

template <auto Entry, CallName Name, Defers D = Defers::kCancellation>
inline constexpr auto kTracedSetup =
    &TracedEntry<&SetupEntry<Entry, Name>::call, Name, trace::kCalls, D>::call;

// `Entry` wrapped for a provider table, traced from level `At` on.
template <auto Entry, CallName Name, trace::Level At = trace::kCalls,
          Defers D = Defers::kCancellation>
inline constexpr auto kTraced = &TracedEntry<Entry, Name, At, D>::call;

}  // namespace udapl::dapl
