// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <string>

namespace udapl::dat {

// The names of DAT_RETURN values. No state; the strings live for ever.

// Null for a value that no enumerator has. Only the type bits, or the subtype bits, are looked at.
[[nodiscard]] const char* type_name(DAT_RETURN value) noexcept;
[[nodiscard]] const char* subtype_name(DAT_RETURN value) noexcept;  // "" for DAT_NO_SUBTYPE

// dat_strerror. `minor` may be null. Order and results are those of existing libraries, which
// answer an unknown value with DAT_INVALID_PARAMETER without class bits (docs/compatibility.md).
DAT_RETURN describe(DAT_RETURN value, const char** major, const char** minor) noexcept;

// For messages: "DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED".
[[nodiscard]] std::string error_text(DAT_RETURN value);

}  // namespace udapl::dat
