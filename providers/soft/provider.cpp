// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The entry points of libdaplsoft.so.2.
#include <dat/udat.h>

#include <dat/dat_registry.h>

#include <cstdarg>

#include "common/tracing/trace.h"
#include "dapl/table/provider_table.h"
#include "providers/soft/adapter.h"
#include "providers/soft/cq.h"
#include "providers/soft/io/lingering_close.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"

#define UDAPL_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr udapl::dapl::ProviderKit kKit =
    udapl::dapl::make_provider_kit<udapl::soft::Qp, udapl::soft::Cq, udapl::soft::Srq>(
        &udapl::soft::Adapter::open);

// Runs before everything else in this library, because the level also applies to its loading.
[[gnu::constructor]] void read_trace_level() {
  udapl::trace::init("dapl-soft", "DAPL_TRACE_LEVEL");
}

// Many programs exit right after the last disconnect, without dat_ia_close.
[[gnu::destructor]] void take_leave() {
  udapl::soft::await_lingering_at_exit(udapl::soft::kFarewell);
}

}  // namespace

UDAPL_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO* provider_info,
                                    const char* instance_data) {
  udapl::dapl::register_provider(kKit, provider_info, instance_data);
}

UDAPL_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO* provider_info) {
  udapl::dapl::unregister_provider(provider_info);
}

// Some registries look this symbol up to find out whether there are extensions. The provider table
// has the same function.
UDAPL_EXPORT DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                                        va_list arguments) {
  return udapl::dapl::calls::extended_operation(handle, operation, arguments);
}
