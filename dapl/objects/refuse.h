// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "common/tracing/cause.h"
#include "common/tracing/refusal.h"

// Returns an error from a function that returns Status or Result, and records the reason in one
// trace record and as the thread's last cause:
//   if (qlen <= 0) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "queue length %d", qlen);
#define UDAPL_REFUSE(type, subtype, ...)                                    \
  do {                                                                      \
    UDAPL_EXPLAIN(kNormal, ::udapl::dat_error(type, subtype), __VA_ARGS__); \
    return ::udapl::failure(type, subtype);                                 \
  } while (false)

// Returns the error `status` of the transport from a function that returns Status or Result. Writes
// a trace record, and notes a cause if the transport has noted none. Only for set-up calls, in
// which a trace::Refusal tells whether it has (kTracedSetup).
#define UDAPL_PASS_ON(status, ...)                             \
  do {                                                         \
    const ::udapl::Status passed_on = (status);                \
    UDAPL_TRACE_ERROR(kNormal, passed_on.code(), __VA_ARGS__); \
    if (!::udapl::trace::Refusal::has_reason())                \
      ::udapl::cause::note(passed_on.code(), __VA_ARGS__);     \
    return passed_on;                                          \
  } while (false)
