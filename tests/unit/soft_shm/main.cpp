// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE soft_shm
#include <boost/test/unit_test.hpp>
