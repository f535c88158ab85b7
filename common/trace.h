// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>

// Trace points. Each of our shared libraries has its own level (DAT_TRACE_LEVEL for libdat2,
// DAPL_TRACE_LEVEL for a provider) and writes one line a record to stderr. A point that is off
// costs one relaxed load and one branch.
//
// Levels: what one sees
//   1 error    things the user must know: a setup that cannot work, a connection broken by a fault
//   (default) 3 normal   every call refused with an error and why; EP state changes; connection
//   events 7 detail   posts, completions, arming, wake-ups, wire frames
namespace udapl::trace {

enum Level : int { kError = 1, kNormal = 3, kDetail = 7, kMax = 10 };
inline constexpr int kDefaultLevel = kError;

extern std::atomic<int> level_now;  // of this library; change through set_level

// Names this library in its records ("dat", "dapl") and reads its level from environment variable
// `variable`. A value that is not a number from 0 to 10 is reported and the default used. Call
// once, at load or first use.
void init(const char* component, const char* variable) noexcept;

// REQUIRES: 0 <= level <= kMax.
void set_level(int level) noexcept;

[[nodiscard]] inline bool enabled(Level level) noexcept {
  return level_now.load(std::memory_order_relaxed) >= level;
}

// Writes one record; errno is preserved. Call through the macro.
[[gnu::format(printf, 3, 4), gnu::cold]] void write(Level level, const char* function,
                                                    const char* format, ...) noexcept;

}  // namespace udapl::trace

// UDAPL_TRACE(kNormal, "ep %p: connect refused, state %s", ...). Arguments are evaluated only when
// the point is on.
#define UDAPL_TRACE(level, ...)                                                        \
  do {                                                                                 \
    if (::udapl::trace::enabled(::udapl::trace::level)) [[unlikely]]                   \
      ::udapl::trace::write(::udapl::trace::level, static_cast<const char*>(__func__), \
                            __VA_ARGS__);                                              \
  } while (false)
