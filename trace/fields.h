// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/tracing/trace_record.h"

#include <lttng/tracepoint.h>

// Macros with which dat_provider.h and dapl_provider.h define their events. They expand to macros
// of LTTng, which includes those files several times, with a different definition of its macros
// each time.

// UDAPL_EVENT(provider, name, log level, fields...): an event made from one Record `r`. Its first
// fields identify the component and the object (UDAPL_ABOUT).
#define UDAPL_EVENT(provider, name, loglevel, ...)                                              \
  LTTNG_UST_TRACEPOINT_EVENT(provider, name, LTTNG_UST_TP_ARGS(const udapl::trace::Record*, r), \
                             LTTNG_UST_TP_FIELDS(UDAPL_ABOUT __VA_ARGS__))                      \
  LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, name, LTTNG_UST_TRACEPOINT_LOGLEVEL_##loglevel)

#define UDAPL_ABOUT     \
  UDAPL_TEXT(component) \
  UDAPL_TEXT(ia)        \
  UDAPL_TEXT(type)      \
  UDAPL_HANDLE(object, object)

// Fields: a member of the record under its own name, or under another name. A text that a record
// does not have is recorded as "-": where a string is empty, Babeltrace 2.0.4 shows that of an
// earlier event.
#define UDAPL_TEXT(member) UDAPL_TEXT_AS(member, member)
#define UDAPL_TEXT_AS(field, member) \
  lttng_ust_field_string(field, r->member[0] != '\0' ? r->member : "-")
#define UDAPL_NUMBER(type, field, member) lttng_ust_field_integer(std::type, field, r->member)
#define UDAPL_HEX(type, field, member) lttng_ust_field_integer_hex(std::type, field, r->member)
#define UDAPL_HANDLE(field, member) \
  lttng_ust_field_integer_hex(std::uint64_t, field, ADDRESS(r->member))  // null is 0
#define ADDRESS(pointer) static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer))

// The events that every library emits.
#define UDAPL_COMMON_EVENTS(provider)                                                    \
  UDAPL_EVENT(provider, call, DEBUG_FUNCTION, UDAPL_TEXT(function))                      \
  UDAPL_EVENT(provider, call_return, DEBUG_FUNCTION,                                     \
              UDAPL_TEXT(function) UDAPL_HEX(uint32_t, code, code) UDAPL_TEXT(status))   \
  UDAPL_EVENT(provider, message, INFO,                                                   \
              UDAPL_NUMBER(int32_t, level, level) UDAPL_TEXT(function) UDAPL_TEXT(text)) \
  UDAPL_EVENT(provider, error, ERR,                                                      \
              UDAPL_NUMBER(int32_t, level, level) UDAPL_TEXT(function) UDAPL_TEXT(text)  \
                  UDAPL_HEX(uint32_t, code, code) UDAPL_TEXT(status))
