// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// LTTng events dat:*. LTTng includes this file several times.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER dat
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "trace/dat_provider.h"

#if !defined(UDAPL_TRACE_DAT_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define UDAPL_TRACE_DAT_PROVIDER_H
#include "trace/fields.h"

// clang-format off
UDAPL_COMMON_EVENTS(dat)
// clang-format on
#endif

#include <lttng/tracepoint-event.h>
