// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// LTTng events dapl:*. LTTng reads this several times.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER dapl
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "trace/dapl_provider.h"

#if !defined(UDAPL_TRACE_DAPL_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define UDAPL_TRACE_DAPL_PROVIDER_H
#include "common/trace_record.h"

#include <lttng/tracepoint.h>


LTTNG_UST_TRACEPOINT_EVENT(
    dapl, call, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_string(function, r->function)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, call,
                              LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, call_return, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_string(function, r->function)
                                        lttng_ust_field_integer_hex(std::uint32_t, code, r->code)
                                            lttng_ust_field_string(status, r->status)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, call_return,
                              LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, message, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_integer(std::int32_t, level, r->level)
                                        lttng_ust_field_string(function, r->function)
                                            lttng_ust_field_string(text, r->text)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, message, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, error, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_integer(std::int32_t, level, r->level)
                                        lttng_ust_field_string(function, r->function)
                                            lttng_ust_field_string(text, r->text)
                                                lttng_ust_field_integer_hex(std::uint32_t, code,
                                                                            r->code)
                                                    lttng_ust_field_string(status, r->status)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, error, LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, ep_state, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        lttng_ust_field_string(cause, r->function)
        lttng_ust_field_string(from, r->detail)
        lttng_ust_field_string(to, r->text)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, ep_state, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, connection, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        lttng_ust_field_string(event, r->text)
        lttng_ust_field_string(ends, r->detail)
        lttng_ust_field_integer(std::uint64_t, private_data, r->length)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, connection, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, post, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        lttng_ust_field_string(operation, r->text)
        lttng_ust_field_integer_hex(std::uint64_t, cookie, r->cookie)
        lttng_ust_field_integer(std::uint64_t, length, r->length)
        lttng_ust_field_integer_hex(std::uint32_t, flags, r->code)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, post, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, completion, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        lttng_ust_field_string(operation, r->text)
        lttng_ust_field_integer_hex(std::uint64_t, cookie, r->cookie)
        lttng_ust_field_integer(std::uint64_t, length, r->length)
        lttng_ust_field_string(status, r->status)
        lttng_ust_field_integer_hex(std::uint64_t, evd, ADDRESS(r->other))))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, completion, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, evd_arm, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        lttng_ust_field_string(what, r->text)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, evd_arm, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, evd_wake, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        lttng_ust_field_string(why, r->text)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, evd_wake, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, object_create, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        ))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, object_create, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, object_free, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        ))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, object_free, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)

LTTNG_UST_TRACEPOINT_EVENT(
    dapl, frame, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(component, r->component) lttng_ust_field_string(ia, r->ia)
        lttng_ust_field_string(type, r->type)
            lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
        lttng_ust_field_string(direction, r->detail)
        lttng_ust_field_string(message, r->text)
        lttng_ust_field_integer(std::uint64_t, length, r->length)
        lttng_ust_field_integer(std::uint64_t, number, r->cookie)
        lttng_ust_field_integer(std::int64_t, last, r->code)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dapl, frame, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)
#endif

#include <lttng/tracepoint-event.h>
