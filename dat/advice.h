// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <string>
#include <string_view>

namespace udapl::dat {

// Advice to the user about a failed open: phrases that follow "try: ", "" if there is no good
// advice. Pure functions.

// `failure` is the dynamic linker's text about the library `path` of an entry.
[[nodiscard]] std::string advice_for_library(std::string_view path, std::string_view failure);

// A library that loaded but has no entry points, or whose init did not register the name.
[[nodiscard]] std::string advice_for_no_entry_points(std::string_view path);
[[nodiscard]] std::string advice_for_no_registration();

// A provider's open returned `status`; `reason_given`: it gave a reason.
[[nodiscard]] std::string advice_for_status(DAT_RETURN status, bool reason_given);

// dat.conf could not be read because of `failure`, the system's error text.
[[nodiscard]] std::string advice_for_file(std::string_view path, std::string_view failure);

}  // namespace udapl::dat
