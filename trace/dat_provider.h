// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// LTTng events dat:*. LTTng reads this several times.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER dat
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "trace/dat_provider.h"

#if !defined(UDAPL_TRACE_DAT_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define UDAPL_TRACE_DAT_PROVIDER_H
#include "common/trace_record.h"

#include <lttng/tracepoint.h>


LTTNG_UST_TRACEPOINT_EVENT(
    dat, call, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_string(function, r->function)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dat, call,
                              LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)

LTTNG_UST_TRACEPOINT_EVENT(
    dat, call_return, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_string(function, r->function)
                                        lttng_ust_field_integer_hex(std::uint32_t, code, r->code)
                                            lttng_ust_field_string(status, r->status)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dat, call_return,
                              LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)

LTTNG_UST_TRACEPOINT_EVENT(
    dat, message, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_integer(std::int32_t, level, r->level)
                                        lttng_ust_field_string(function, r->function)
                                            lttng_ust_field_string(text, r->text)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dat, message, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(
    dat, error, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(component, r->component)
                            lttng_ust_field_string(ia, r->ia) lttng_ust_field_string(type, r->type)
                                lttng_ust_field_integer_hex(std::uint64_t, object, ADDRESS(r->object))
                                    lttng_ust_field_integer(std::int32_t, level, r->level)
                                        lttng_ust_field_string(function, r->function)
                                            lttng_ust_field_string(text, r->text)
                                                lttng_ust_field_integer_hex(std::uint32_t, code,
                                                                            r->code)
                                                    lttng_ust_field_string(status, r->status)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(dat, error, LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR)
#endif

#include <lttng/tracepoint-event.h>
