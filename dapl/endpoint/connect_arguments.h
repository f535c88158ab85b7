// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"

// Checks of arguments that several connection calls share. Each traces its refusals.
namespace udapl::dapl {

// Checks a consumer's private data. Subtypes of a refusal: `size_arg` if the size is negative or
// more than `most`, `data_arg` if the pointer is null and the size is not 0.
[[nodiscard]] Result<transport::PrivateData> check_private_data(DAT_COUNT most, DAT_COUNT size,
                                                                const void* data,
                                                                DAT_RETURN size_arg,
                                                                DAT_RETURN data_arg) noexcept;

// Checks the address of a peer. INVALID_PARAMETER with `arg` if it is null, INVALID_ADDRESS if no
// peer can have it.
[[nodiscard]] Result<transport::SocketAddress> check_peer(DAT_IA_ADDRESS_PTR address,
                                                          DAT_RETURN arg) noexcept;

// Only best effort is supported. MODEL_NOT_SUPPORTED for every other value.
[[nodiscard]] Status check_qos(DAT_QOS qos) noexcept;

}  // namespace udapl::dapl
