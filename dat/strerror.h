// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <string>

#include "common/dat_names.h"

namespace udapl::dat {

using udapl::subtype_name;
using udapl::type_name;

// dat_strerror. `minor` may be null. Order and results are OpenFabrics', which
// answer an unknown value with DAT_INVALID_PARAMETER without class bits (docs/compatibility.md
// R42).
DAT_RETURN describe(DAT_RETURN value, const char** major, const char** minor) noexcept;

// For messages: "DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED".
[[nodiscard]] std::string error_text(DAT_RETURN value);

}  // namespace udapl::dat
