// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "common/tracing/cause.h"

// Returns an error from a function that returns Status or Result, and records the reason in one
// trace record and as the thread's last cause:
//   if (qlen <= 0) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "queue length %d", qlen);
#define UDAPL_REFUSE(type, subtype, ...)                                    \
  do {                                                                      \
    UDAPL_EXPLAIN(kNormal, ::udapl::dat_error(type, subtype), __VA_ARGS__); \
    return ::udapl::failure(type, subtype);                                 \
  } while (false)
