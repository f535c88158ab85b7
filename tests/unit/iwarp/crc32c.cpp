// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/crc32c.h"

#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/support.h"

using namespace iwarp_test;

BOOST_AUTO_TEST_SUITE(crc)

BOOST_AUTO_TEST_CASE(known_inputs_have_the_known_crc) {
  BOOST_TEST(crc32c("123456789", 9) == 0xE3069283U);
  const Bytes zeros(32);
  BOOST_TEST(crc32c(zeros.data(), zeros.size()) == 0x8A9136AAU);
  BOOST_TEST(crc32c(nullptr, 0) == 0U);
}

// Every implementation, every length around the threshold between them, every alignment.
BOOST_AUTO_TEST_CASE(all_implementations_agree_with_the_bitwise_one) {
  const Bytes data = pattern(2100, 7);
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (std::size_t size = 0; size < 2000; size += size < 150 ? 1 : 61) {
      const std::span part(data.data() + offset, size);
      const std::uint32_t expected = reference_crc(part);
      BOOST_TEST_CONTEXT("offset " << offset << " size " << size) {
        BOOST_REQUIRE_EQUAL(crc32c(part.data(), size), expected);
        BOOST_REQUIRE_EQUAL(crc32c_finish(crc32c_update_table(kCrcInit, part.data(), size)),
                            expected);
        BOOST_REQUIRE_EQUAL(crc32c_finish(crc32c_update_long(kCrcInit, part.data(), size)),
                            expected);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(crc_of_pieces_is_that_of_the_whole) {
  const Bytes data = pattern(700, 3);
  const std::uint32_t whole = reference_crc(data);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    const std::uint32_t first = crc32c_update(kCrcInit, data.data(), cut);
    BOOST_REQUIRE_EQUAL(crc32c_finish(crc32c_update(first, data.data() + cut, data.size() - cut)),
                        whole);
  }
}

BOOST_AUTO_TEST_SUITE_END()
