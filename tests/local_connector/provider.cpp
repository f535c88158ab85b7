// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The entry points of libdapllocal.so.2, a provider for tests.
#include <dat/udat.h>

#include <dat/dat_registry.h>

#include <cstdarg>
#include <memory>
#include <string_view>

#include "common/tracing/trace.h"
#include "connector.h"
#include "dapl/table/provider_table.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/srq.h"

#define UDAPL_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

udapl::Result<std::unique_ptr<udapl::transport::Adapter>> open_adapter(
    std::string_view ia_params, udapl::transport::AdapterSink& sink) {
  return udapl::verbs::Adapter::open(ia_params, sink, udapl::local::kLocal);
}

constexpr udapl::dapl::ProviderKit kKit =
    udapl::dapl::make_provider_kit<udapl::verbs::Qp, udapl::verbs::Cq, udapl::verbs::Srq>(
        &open_adapter);

// Runs before all other code of this library, as the level applies to its loading, too.
[[gnu::constructor]] void read_trace_level() {
  udapl::trace::init("dapl-local", "DAPL_TRACE_LEVEL");
}

}  // namespace

UDAPL_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO* provider_info,
                                    const char* instance_data) {
  udapl::dapl::register_provider(kKit, provider_info, instance_data);
}

UDAPL_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO* provider_info) {
  udapl::dapl::unregister_provider(provider_info);
}

// Looked up by some registries to see whether there are extensions; the provider table has it, too.
UDAPL_EXPORT DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                                        va_list arguments) {
  return udapl::dapl::calls::extended_operation(handle, operation, arguments);
}
