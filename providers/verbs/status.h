// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/result.h"
#include "dapl/transport/types.h"

// Converts results of verbs and rdma_cm to those of DAT. Pure.
namespace udapl::verbs {

// The DTO status of a completion.
[[nodiscard]] DAT_DTO_COMPLETION_STATUS dto_status(ibv_wc_status status) noexcept;

// The error of a control call that failed with `error` (a positive errno value). ENOMEM, ENOSPC,
// EAGAIN, EMFILE and ENFILE become INSUFFICIENT_RESOURCES with the subtype `resource`.
[[nodiscard]] Status status_of(int error, DAT_RETURN resource = DAT_NO_SUBTYPE) noexcept;

// The result of a post that ibv_post_* refused with `error` (positive or negative errno).
[[nodiscard]] DAT_RETURN post_error(int error) noexcept;

// The names of the enumerators for traces: "IBV_WC_RETRY_EXC_ERR", "RTS", "ACTIVE". Never null.
[[nodiscard]] const char* name_of(ibv_wc_status status) noexcept;
[[nodiscard]] const char* name_of(ibv_event_type event) noexcept;
[[nodiscard]] const char* name_of(ibv_qp_state state) noexcept;
[[nodiscard]] const char* name_of(ibv_port_state state) noexcept;

}  // namespace udapl::verbs
