// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE manual
#include <boost/test/unit_test.hpp>
