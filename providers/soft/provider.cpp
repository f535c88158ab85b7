// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The entry points of libdaplsoft.so.2.
#include "dapl/table/entry_points.h"
#include "dapl/table/provider_table.h"
#include "providers/soft/adapter.h"
#include "providers/soft/cq.h"
#include "providers/soft/io/lingering_close.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"

namespace {

constexpr udapl::dapl::ProviderKit kKit =
    udapl::dapl::make_provider_kit<udapl::soft::Qp, udapl::soft::Cq, udapl::soft::Srq>(
        &udapl::soft::Adapter::open);

// Waits, for a limited time, until what the process has sent has arrived: many programs exit right
// after the last disconnect, without dat_ia_close.
[[gnu::destructor]] void take_leave() {
  udapl::soft::await_lingering_at_exit(udapl::soft::kLingerAtClose);
}

}  // namespace

UDAPL_ENTRY_POINTS("dapl-soft", kKit)
