// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/soft/path.h"

namespace udapl::soft::test {

const Path kPath = Path::UDAPL_TEST_PATH;

}  // namespace udapl::soft::test
