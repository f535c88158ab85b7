// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The entry points of libdaplofa.so.2.
#include <memory>
#include <string_view>

#include "dapl/table/entry_points.h"
#include "dapl/table/provider_table.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/rdma_cm/connector.h"
#include "providers/verbs/srq.h"

namespace {

udapl::Result<std::unique_ptr<udapl::transport::Adapter>> open_adapter(
    std::string_view ia_params, udapl::transport::AdapterSink& sink) {
  return udapl::verbs::Adapter::open(ia_params, sink, udapl::verbs::kRdmaCm);
}

constexpr udapl::dapl::ProviderKit kKit =
    udapl::dapl::make_provider_kit<udapl::verbs::Qp, udapl::verbs::Cq, udapl::verbs::Srq>(
        &open_adapter);

}  // namespace

UDAPL_ENTRY_POINTS("dapl-ofa", kKit)
