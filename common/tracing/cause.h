// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/errno_text.h"
#include "common/tracing/trace.h"

// Passes the reason of an error to the application, at every trace level: dat_last_cause() of
// <dat/dat_diagnosis_extensions.h>. Works in libdat2 and in providers. Other registries do not
// support causes: with those the application gets none. Thread-safe; has no state.
namespace udapl::cause {

// Makes the text the thread's last cause, for the call that will return `code`. A line that begins
// with "try: " is advice. Cut at 1 KiB. errno is preserved. Never fails, allocates nothing.
[[gnu::format(printf, 2, 3), gnu::cold]] void note(DAT_RETURN code, const char* format,
                                                   ...) noexcept;

// Advice for a system call's error, as a line to be appended to a text ("\ntry: ..."), or "" if
// there is no good advice.
[[nodiscard]] const char* remedy(int error) noexcept;

}  // namespace udapl::cause

// UDAPL_EXPLAIN(kNormal, code, "cannot listen at %s: %s", ...): a trace record, and the cause of
// the error `code` that is about to be returned. The arguments are evaluated twice.
#define UDAPL_EXPLAIN(level, code, ...)          \
  do {                                           \
    UDAPL_TRACE_ERROR(level, code, __VA_ARGS__); \
    ::udapl::cause::note((code), __VA_ARGS__);   \
  } while (false)

// Like UDAPL_EXPLAIN, for a system call's `error`, an errno value: adds its text ("...: Permission
// denied (EACCES)") and advice for the user, if there is any.
#define UDAPL_EXPLAIN_ERRNO(level, code, error, format, ...)                                \
  do {                                                                                      \
    UDAPL_TRACE_ERROR(level, code, format ": %s" __VA_OPT__(, ) __VA_ARGS__,                \
                      ::udapl::ErrnoText(error).c_str());                                   \
    ::udapl::cause::note((code), format ": %s%s" __VA_OPT__(, ) __VA_ARGS__,                \
                         ::udapl::ErrnoText(error).c_str(), ::udapl::cause::remedy(error)); \
  } while (false)
