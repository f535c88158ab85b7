// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "plan.h"

namespace datperf {

/** A report that only says where and when. */
[[nodiscard]] Report about_machine();

}  // namespace datperf
