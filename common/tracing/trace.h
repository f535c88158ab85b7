// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/tracing/trace_page.h"
#include "common/tracing/trace_record.h"

#include <string_view>

// Trace points. Each of our shared libraries has levels of its own (DAT_TRACE_LEVEL for libdat2,
// DAPL_TRACE_LEVEL for a provider), which may change while it runs. A point that is off costs one
// load and one branch. docs/tracing.md describes the levels and the sinks.
//
// Thread-safe. -DUDAPL_NO_TRACE compiles every point out.
namespace udapl::trace {

class RateLimit;

enum Level : int {
  kError = 1,    // what the user must know: a setup that cannot work, a broken connection
  kNormal = 3,   // every call refused and why; EP states; connection events; objects of an IA
  kCalls = 5,    // control calls and their results; objects made and freed
  kDetail = 7,   // posts, completions, arming, wake-ups, wire messages
  kPayload = 9,  // and private data
  kMax = 10
};
inline constexpr int kDefaultLevel = kError;

// The page of this library; hidden, so that it is accessed without an indirection.
[[gnu::visibility("hidden")]] extern constinit Page page;

// Names this library in its records ("dat", "dapl-soft"), reads level and sink from the environment
// and makes the page available to dattrace. `variable`: DAT_TRACE_LEVEL or DAPL_TRACE_LEVEL; the
// other variables have the same prefix. Invalid values are reported and replaced by the default.
// Only the first call has an effect.
void init(const char* component, const char* variable) noexcept;

// The level of the text records. REQUIRES: 0 <= level <= kMax.
[[nodiscard]] int level() noexcept;
void set_level(int level) noexcept;
// Passes all records to `probe` as well. Null: no longer.
void set_probe(Probe probe) noexcept;

[[nodiscard, gnu::always_inline]] inline bool enabled([[maybe_unused]] Level level) noexcept {
#ifdef UDAPL_NO_TRACE
  return false;
#else
  return page.threshold.load(std::memory_order_relaxed) >= level;
#endif
}

// ---- the subject of a record -------------------------------------------------------------------

// The description of a handle. The texts are never freed; empty: unknown.
struct Identity {
  const char* ia = "";
  const char* type = "";
};
// Describes `object`; never fails, whatever it is. Set once by the code that knows handles.
using Describe = Identity (*)(const void* object) noexcept;
void set_describe(Describe describe) noexcept;
[[nodiscard]] Identity describe(const void* object) noexcept;

class Refusal;

// The default subject of a thread's records, and the Refusal of the call that the thread is in.
struct ThreadState {
  const void* subject = nullptr;  // of About
  Refusal* refusal = nullptr;     // common/tracing/refusal.h
};
// Always the same object for one thread, so that the compiler need not call this twice in a
// function.
[[nodiscard, gnu::const]] ThreadState& this_thread() noexcept;

// During its lifetime, those records of the thread that name no object are about `object`. Nests.
class About {
 public:
  explicit About(const void* object) noexcept : outer_(this_thread().subject) {
    this_thread().subject = object;
  }
  ~About() { this_thread().subject = outer_; }
  About(const About&) = delete;
  About& operator=(const About&) = delete;

 private:
  const void* const outer_;
};

// ---- records -----------------------------------------------------------------------------------

[[nodiscard]] constexpr bool is_lambda(std::string_view function) noexcept {
  return function == "operator()";
}

// Writes one record; errno is preserved. Called through the macros. `function` is a name, or the
// signature of a lambda.
[[gnu::format(printf, 3, 4), gnu::cold]] void write(Level level, const char* function,
                                                    const char* format, ...) noexcept;
// Like write(), for events that a peer can cause as often as it likes: no more records are written
// than `limit` allows, unless the library's level is kNormal or above. The next record written
// contains the number of suppressed ones.
[[gnu::format(printf, 4, 5), gnu::cold]] void write_limited(RateLimit& limit, Level level,
                                                            const char* function,
                                                            const char* format, ...) noexcept;
// Like write(), with the error that is returned to the caller.
[[gnu::format(printf, 4, 5), gnu::cold]] void write_error(Level level, DAT_RETURN code,
                                                          const char* function, const char* format,
                                                          ...) noexcept;
// Fills in component and identity. If `record.object` is null, the object of About is used.
[[gnu::cold, gnu::noinline]] void emit(Record record) noexcept;

// Writes lines for human readers. On stderr and stdout they are written unchanged; in syslog, a
// file and LTTng each of them is an error record of `function`, without `prefix`. `text` ends with
// a newline. Nothing is written if the level hides errors.
void report(const char* function, std::string_view prefix, std::string_view text) noexcept;

}  // namespace udapl::trace

// The function that a trace point is in. In a lambda, __func__ is "operator()", but the signature
// names the function around it.
#define UDAPL_TRACED_FUNCTION (::udapl::trace::is_lambda(__func__) ? __PRETTY_FUNCTION__ : __func__)

// UDAPL_TRACE(kNormal, "connect refused, state %s", ...). Arguments are evaluated only when the
// point is on.
#define UDAPL_TRACE(level, ...)                                                         \
  do {                                                                                  \
    if (::udapl::trace::enabled(::udapl::trace::level)) [[unlikely]]                    \
      ::udapl::trace::write(::udapl::trace::level, UDAPL_TRACED_FUNCTION, __VA_ARGS__); \
  } while (false)

// Like UDAPL_TRACE, at most as often as a RateLimit (common/tracing/trace_limit.h) allows.
#define UDAPL_TRACE_LIMITED(limit, level, ...)                                           \
  do {                                                                                   \
    if (::udapl::trace::enabled(::udapl::trace::level)) [[unlikely]]                     \
      ::udapl::trace::write_limited(limit, ::udapl::trace::level, UDAPL_TRACED_FUNCTION, \
                                    __VA_ARGS__);                                        \
  } while (false)

// Like UDAPL_TRACE, for an operation that failed with `code`.
#define UDAPL_TRACE_ERROR(level, code, ...)                                           \
  do {                                                                                \
    if (::udapl::trace::enabled(::udapl::trace::level)) [[unlikely]]                  \
      ::udapl::trace::write_error(::udapl::trace::level, code, UDAPL_TRACED_FUNCTION, \
                                  __VA_ARGS__);                                       \
  } while (false)
