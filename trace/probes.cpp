// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// libudapl-lttng.so.1: turns the records of the uDAPL libraries into LTTng-UST events. Loaded into
// a process only on request (LD_PRELOAD or DAT_TRACE_LTTNG=1), because LTTng starts threads.
#include <cstdint>
#include <cstring>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "trace/dapl_provider.h"
#include "trace/dat_provider.h"

namespace {

using udapl::trace::Kind;
using udapl::trace::Record;

// The registry has fewer kinds of events.
void dat_event(const Record* record) noexcept {
  switch (record->kind) {
    case Kind::kCall:
      lttng_ust_tracepoint(dat, call, record);
      break;
    case Kind::kReturn:
      lttng_ust_tracepoint(dat, call_return, record);
      break;
    case Kind::kError:
      lttng_ust_tracepoint(dat, error, record);
      break;
    default:
      lttng_ust_tracepoint(dat, message, record);
      break;
  }
}

void dapl_event(const Record* record) noexcept {
  switch (record->kind) {
    case Kind::kMessage:
      lttng_ust_tracepoint(dapl, message, record);
      break;
    case Kind::kError:
      lttng_ust_tracepoint(dapl, error, record);
      break;
    case Kind::kCall:
      lttng_ust_tracepoint(dapl, call, record);
      break;
    case Kind::kReturn:
      lttng_ust_tracepoint(dapl, call_return, record);
      break;
    case Kind::kState:
      lttng_ust_tracepoint(dapl, ep_state, record);
      break;
    case Kind::kConnection:
      lttng_ust_tracepoint(dapl, connection, record);
      break;
    case Kind::kPost:
      lttng_ust_tracepoint(dapl, post, record);
      break;
    case Kind::kCompletion:
      lttng_ust_tracepoint(dapl, completion, record);
      break;
    case Kind::kArm:
      lttng_ust_tracepoint(dapl, evd_arm, record);
      break;
    case Kind::kWake:
      lttng_ust_tracepoint(dapl, evd_wake, record);
      break;
    case Kind::kCreate:
      lttng_ust_tracepoint(dapl, object_create, record);
      break;
    case Kind::kFree:
      lttng_ust_tracepoint(dapl, object_free, record);
      break;
    case Kind::kFrame:
      lttng_ust_tracepoint(dapl, frame, record);
      break;
    case Kind::kVerbsCall:
      lttng_ust_tracepoint(dapl, verbs_call, record);
      break;
    case Kind::kVerbsEvent:
      lttng_ust_tracepoint(dapl, verbs_event, record);
      break;
    case Kind::kVerbsWork:
      lttng_ust_tracepoint(dapl, verbs_completion, record);
      break;
  }
}

}  // namespace

extern "C" void udapl_trace_probe_1(const Record* record) {
  // Newer libraries may use larger records than this one knows; older ones cannot be loaded with
  // it.
  if (record->size < sizeof(Record)) return;
  if (std::strcmp(record->component, "dat") == 0)
    dat_event(record);
  else
    dapl_event(record);
}
