// SPDX-License-Identifier: MIT OR GPL-2.0-only
// No exception escapes from a call.
#include "dapl/objects/boundary.h"

#include "tests/unit/dapl_events/support.h"

#include <stdexcept>

namespace udapl::test {

BOOST_FIXTURE_TEST_SUITE(boundary, Providers)

BOOST_AUTO_TEST_CASE(body_returns_or_throws) {
  const Traced traced;
  CHECK_CODE(dapl::boundary([] { return failure(DAT_INVALID_STATE); }),
             dat_error(DAT_INVALID_STATE));
  CHECK_CODE(dapl::boundary([]() -> Status { throw std::bad_alloc(); }),
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  BOOST_CHECK(traced.has(trace::kError, "out of memory"));
  CHECK_CODE(dapl::boundary([]() -> Status { throw std::logic_error("a defect"); }),
             dat_error(DAT_INTERNAL_ERROR));
  BOOST_CHECK(traced.has(trace::kError, "unexpected exception"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
