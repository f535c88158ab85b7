// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE connecting
#include <boost/test/unit_test.hpp>
