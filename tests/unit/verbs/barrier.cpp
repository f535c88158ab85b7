// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/barrier.h"

#include <boost/test/unit_test.hpp>

namespace udapl::verbs {

BOOST_AUTO_TEST_CASE(barrier) {
  BOOST_CHECK_EQUAL(has_process_barrier(), has_process_barrier());
  if (has_process_barrier()) process_barrier();
}

}  // namespace udapl::verbs
