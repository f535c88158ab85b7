// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// LTTng events dapl:*. LTTng includes this file several times.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER dapl
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "trace/dapl_provider.h"

#if !defined(UDAPL_TRACE_DAPL_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define UDAPL_TRACE_DAPL_PROVIDER_H
#include "trace/fields.h"

// clang-format off
UDAPL_COMMON_EVENTS(dapl)

// ---- the provider core -------------------------------------------------------------------------

UDAPL_EVENT(dapl, object_create, DEBUG_FUNCTION)
UDAPL_EVENT(dapl, object_free, DEBUG_FUNCTION)

UDAPL_EVENT(dapl, ep_state, INFO,
            UDAPL_TEXT_AS(cause, function)
            UDAPL_TEXT_AS(from, detail)
            UDAPL_TEXT_AS(to, text))

UDAPL_EVENT(dapl, connection, INFO,
            UDAPL_TEXT_AS(event, text)
            UDAPL_TEXT_AS(ends, detail)
            UDAPL_NUMBER(uint64_t, private_data, length))

UDAPL_EVENT(dapl, post, DEBUG,
            UDAPL_TEXT_AS(operation, text)
            UDAPL_HEX(uint64_t, cookie, cookie)
            UDAPL_NUMBER(uint64_t, length, length)
            UDAPL_HEX(uint32_t, flags, code))

UDAPL_EVENT(dapl, completion, DEBUG,
            UDAPL_TEXT_AS(operation, text)
            UDAPL_HEX(uint64_t, cookie, cookie)
            UDAPL_NUMBER(uint64_t, length, length)
            UDAPL_TEXT(status)
            UDAPL_HANDLE(evd, other))

UDAPL_EVENT(dapl, evd_arm, DEBUG, UDAPL_TEXT_AS(what, text))
UDAPL_EVENT(dapl, evd_wake, DEBUG, UDAPL_TEXT_AS(why, text))

// ---- transports --------------------------------------------------------------------------------

UDAPL_EVENT(dapl, frame, DEBUG,
            UDAPL_TEXT_AS(direction, detail)
            UDAPL_TEXT_AS(message, text)
            UDAPL_NUMBER(uint64_t, length, length)
            UDAPL_NUMBER(uint64_t, number, cookie)
            UDAPL_NUMBER(int64_t, last, code))

UDAPL_EVENT(dapl, verbs_call, DEBUG,
            UDAPL_TEXT_AS(call, function)
            UDAPL_TEXT_AS(what, text)
            UDAPL_NUMBER(int32_t, code, code)
            UDAPL_TEXT(status))

UDAPL_EVENT(dapl, verbs_event, DEBUG,
            UDAPL_TEXT_AS(source, function)
            UDAPL_TEXT_AS(event, text)
            UDAPL_NUMBER(int32_t, code, code)
            UDAPL_TEXT(status))

UDAPL_EVENT(dapl, verbs_completion, DEBUG,
            UDAPL_TEXT_AS(queue, text)
            UDAPL_NUMBER(int32_t, code, code)
            UDAPL_TEXT(status)
            UDAPL_HEX(uint64_t, wr_id, cookie)
            UDAPL_NUMBER(uint32_t, qp, number)
            UDAPL_HEX(uint32_t, vendor_error, vendor_error))
// clang-format on
#endif

#include <lttng/tracepoint-event.h>
