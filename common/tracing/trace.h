// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/tracing/trace_page.h"
#include "common/tracing/trace_record.h"

#include <string_view>

// Trace points. Each of our shared libraries has levels of its own (DAT_TRACE_LEVEL for libdat2,
// DAPL_TRACE_LEVEL for a provider), which may change while it runs. A point that is off costs one
// load and one branch. docs/tracing.md says what one sees at each level and where it goes.
//
// Thread-safe. -DUDAPL_NO_TRACE compiles every point out.
namespace udapl::trace {

class RateLimit;

enum Level : int {
  kError = 1,    // things the user must know: a setup that cannot work, a connection broken
  kNormal = 3,   // every call refused and why; EP states; connection events; objects of an IA
  kCalls = 5,    // control calls and what they return; objects made and freed
  kDetail = 7,   // posts, completions, arming, wake-ups, wire messages
  kPayload = 9,  // and private data
  kMax = 10
};
inline constexpr int kDefaultLevel = kError;

// Of this library, and reached without a detour.
[[gnu::visibility("hidden")]] extern constinit Page page;

// Names this library in its records ("dat", "dapl-soft"), reads level and sink from the
// environment and opens the page to dattrace. `variable`: DAT_TRACE_LEVEL or DAPL_TRACE_LEVEL; the
// other variables have the same prefix. What is wrong there is reported and the default used. The
// first call counts.
void init(const char* component, const char* variable) noexcept;

// The level of the text records. REQUIRES: 0 <= level <= kMax.
[[nodiscard]] int level() noexcept;
void set_level(int level) noexcept;
// Records go to `probe` too, all of them. Null: no more.
void set_probe(Probe probe) noexcept;

[[nodiscard, gnu::always_inline]] inline bool enabled([[maybe_unused]] Level level) noexcept {
#ifdef UDAPL_NO_TRACE
  return false;
#else
  return page.threshold.load(std::memory_order_relaxed) >= level;
#endif
}

// ---- who it is about ---------------------------------------------------------------------------

// What a handle is. The texts live for ever; empty: not known.
struct Identity {
  const char* ia = "";
  const char* type = "";
};
// Describes `object`; never fails, whatever it is. Set once by the code that knows handles.
using Describe = Identity (*)(const void* object) noexcept;
void set_describe(Describe describe) noexcept;
[[nodiscard]] Identity describe(const void* object) noexcept;

class Refusal;

// What a thread's records refer to while it is in a call.
struct ThreadState {
  const void* subject = nullptr;  // of About
  Refusal* refusal = nullptr;     // common/tracing/refusal.h
};
// The same place for all calls of a thread, so that the compiler need not ask twice in a function.
[[nodiscard, gnu::const]] ThreadState& this_thread() noexcept;

// While it lives, the thread's records that name no object are about `object`. Nests.
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

// Write one record; errno is preserved. Called through the macros.
[[gnu::format(printf, 3, 4), gnu::cold]] void write(Level level, const char* function,
                                                    const char* format, ...) noexcept;
// As write(), of what a peer can cause as often as it likes: no more of it is written than `limit`
// allows, unless the level is kNormal or above. What was left out is counted in the next one.
[[gnu::format(printf, 4, 5), gnu::cold]] void write_limited(RateLimit& limit, Level level,
                                                            const char* function,
                                                            const char* format, ...) noexcept;
// As write(), with the error that the caller gets.
[[gnu::format(printf, 4, 5), gnu::cold]] void write_error(Level level, DAT_RETURN code,
                                                          const char* function, const char* format,
                                                          ...) noexcept;
// Fills in component and identity. `record.object` null: that of About.
[[gnu::cold, gnu::noinline]] void emit(Record record) noexcept;

// Lines for people. Where people read them, on stderr and stdout, they are written as they are; in
// syslog, a file and LTTng each is an error record of `function`, without `prefix`. `text` ends
// with a newline. Nothing is written if errors are not to be shown.
void tell(const char* function, std::string_view prefix, std::string_view text) noexcept;

}  // namespace udapl::trace

// UDAPL_TRACE(kNormal, "connect refused, state %s", ...). Arguments are evaluated only when the
// point is on.
#define UDAPL_TRACE(level, ...)                                                        \
  do {                                                                                 \
    if (::udapl::trace::enabled(::udapl::trace::level)) [[unlikely]]                   \
      ::udapl::trace::write(::udapl::trace::level, static_cast<const char*>(__func__), \
                            __VA_ARGS__);                                              \
  } while (false)

// As UDAPL_TRACE, at most so often as a RateLimit (common/tracing/trace_limit.h) allows.
#define UDAPL_TRACE_LIMITED(limit, level, ...)                                        \
  do {                                                                                \
    if (::udapl::trace::enabled(::udapl::trace::level)) [[unlikely]]                  \
      ::udapl::trace::write_limited(limit, ::udapl::trace::level,                     \
                                    static_cast<const char*>(__func__), __VA_ARGS__); \
  } while (false)

// As UDAPL_TRACE, of something that failed with `code`.
#define UDAPL_TRACE_ERROR(level, code, ...)                                                        \
  do {                                                                                             \
    if (::udapl::trace::enabled(::udapl::trace::level)) [[unlikely]]                               \
      ::udapl::trace::write_error(::udapl::trace::level, code, static_cast<const char*>(__func__), \
                                  __VA_ARGS__);                                                    \
  } while (false)

// UDAPL_POINT(kDetail, .kind = trace::Kind::kArm, .object = this, .text = "..."): a record with
// fields, in the order of Record's members. Where it is hot, call a cold function that has it.
#define UDAPL_POINT(at, ...)                                                                  \
  do {                                                                                        \
    if (::udapl::trace::enabled(::udapl::trace::at)) [[unlikely]]                             \
      ::udapl::trace::emit(::udapl::trace::Record{.level = ::udapl::trace::at, __VA_ARGS__}); \
  } while (false)
