// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/dat_registry.h>

#include <cstdarg>

#include "common/tracing/trace.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/table/provider.h"

// Defines the entry points of a provider library, the only symbols that it exports. Used once per
// library, outside namespaces. `kit`: a constant ProviderKit. `trace_name`: the library in traces.
//
// The trace level is read before all other code of the library runs, since it also applies to the
// loading of the library. Some registries look up dapl_extensions to find out whether there are
// extensions; the provider table has the same function.
#define UDAPL_ENTRY_POINTS(trace_name, kit)                                                  \
  [[gnu::constructor]] static void read_trace_level() {                                      \
    udapl::trace::init(trace_name, "DAPL_TRACE_LEVEL");                                      \
  }                                                                                          \
  UDAPL_ENTRY_POINT void dat_provider_init(const DAT_PROVIDER_INFO* provider_info,           \
                                           const char* instance_data) {                      \
    udapl::dapl::register_provider(kit, provider_info, instance_data);                       \
  }                                                                                          \
  UDAPL_ENTRY_POINT void dat_provider_fini(const DAT_PROVIDER_INFO* provider_info) {         \
    udapl::dapl::unregister_provider(provider_info);                                         \
  }                                                                                          \
  UDAPL_ENTRY_POINT DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP operation, \
                                               va_list arguments) {                          \
    return udapl::dapl::calls::extended_operation(handle, operation, arguments);             \
  }
#define UDAPL_ENTRY_POINT extern "C" __attribute__((visibility("default")))
