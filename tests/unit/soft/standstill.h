// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/unit/reactor/standstill.h"

namespace udapl::soft::test {

using udapl::test::Standstill;

}  // namespace udapl::soft::test
