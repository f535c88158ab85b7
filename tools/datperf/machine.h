// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "plan.h"

namespace datperf {

/** A report without results: only date, host, kernel and processor. */
[[nodiscard]] Report describe_machine();

}  // namespace datperf
