// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

// Names of DAT's constants, for messages and traces. No state; the strings are static, and never
// null unless stated.
namespace udapl {

// Null for a value without an enumerator. Only the type bits, or the subtype bits, are used.
[[nodiscard]] const char* type_name(DAT_RETURN value) noexcept;
[[nodiscard]] const char* subtype_name(DAT_RETURN value) noexcept;  // "" for DAT_NO_SUBTYPE

[[nodiscard]] const char* dto_status_name(DAT_DTO_COMPLETION_STATUS status) noexcept;
[[nodiscard]] const char* event_name(DAT_EVENT_NUMBER number) noexcept;
[[nodiscard]] const char* ep_state_name(DAT_EP_STATE state) noexcept;
// The name as in the call that posts the operation: "send", "rdma_write".
[[nodiscard]] const char* operation_name(DAT_DTOS operation) noexcept;
[[nodiscard]] const char* handle_type_name(DAT_HANDLE_TYPE type) noexcept;  // "EP"; "" if unknown

}  // namespace udapl
