// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/qp.h"

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

namespace udapl::verbs {

class Adapter;
class Qp;

struct DestroyQp {
  void operator()(ibv_qp* qp) const noexcept;
};
using QpHandle = std::unique_ptr<ibv_qp, DestroyQp>;

// Index in the partition table of a new ibv_qp, until the connection manager knows the partition.
inline constexpr std::uint16_t kInitialPkey = 0;

// Creates an ibv_qp for `owner`, in state INIT, so that receives can be posted. If the device has
// less room for inline data than the adapter wants, so has the QP. INSUFFICIENT_RESOURCES;
// INVALID_PARAMETER: a limit of the device is exceeded. Call it without locks: it makes system
// calls.
[[nodiscard]] Result<QpHandle> create_qp(Adapter& adapter, Qp& owner,
                                         const transport::QpInit& init);

}  // namespace udapl::verbs
