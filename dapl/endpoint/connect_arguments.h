// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"

// Checks of arguments that several connection calls share. Each traces its refusals.
namespace udapl::dapl {

// A consumer's private data. `size_arg`, `data_arg`: subtypes for a size that is negative or more
// than `most`, and for null data of some size.
[[nodiscard]] Result<transport::PrivateData> check_private_data(DAT_COUNT most, DAT_COUNT size,
                                                                const void* data,
                                                                DAT_RETURN size_arg,
                                                                DAT_RETURN data_arg) noexcept;

// The address of a peer. INVALID_PARAMETER with `arg` if null, INVALID_ADDRESS if it can never be a
// peer's.
[[nodiscard]] Result<transport::SocketAddress> check_peer(DAT_IA_ADDRESS_PTR address,
                                                          DAT_RETURN arg) noexcept;

// Only best effort is supported. MODEL_NOT_SUPPORTED for every other value.
[[nodiscard]] Status check_qos(DAT_QOS qos) noexcept;

}  // namespace udapl::dapl
