// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/stag.h"

#include <boost/test/unit_test.hpp>

#include <bit>
#include <unordered_set>

using udapl::soft::StagGenerator;

BOOST_AUTO_TEST_SUITE(stag)

BOOST_AUTO_TEST_CASE(values_do_not_repeat_and_are_never_zero) {
  StagGenerator stags;
  std::unordered_set<std::uint32_t> seen;
  for (int i = 0; i < 300000; ++i) {
    const std::uint32_t stag = stags.next();
    BOOST_REQUIRE(stag != 0);
    BOOST_REQUIRE(seen.insert(stag).second);
  }
}

// A Feistel network is a bijection whatever its round function is; a mistake in the swaps would
// show here.
BOOST_AUTO_TEST_CASE(permutation_is_injective_on_a_dense_range) {
  const StagGenerator stags({1, 2});
  std::unordered_set<std::uint32_t> seen;
  for (std::uint32_t i = 0xFFFE0000; i != 0x00020000; ++i)
    BOOST_REQUIRE(seen.insert(stags.permute(i)).second);
}

BOOST_AUTO_TEST_CASE(issued_values_are_known) {
  StagGenerator stags({1, 2});
  for (const std::uint32_t value : {0U, 1U, 0xFFFFU, 0x10000U, 0x12345678U, 0xFFFFFFFFU})
    BOOST_TEST(stags.inverse(stags.permute(value)) == value);
  BOOST_TEST(!stags.issued(0));
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t next = stags.permute(static_cast<std::uint32_t>(i));
    BOOST_TEST(!stags.issued(next));
    BOOST_REQUIRE(stags.next() == next);  // 0 is not among these
    BOOST_TEST(stags.issued(next));
  }
}

BOOST_AUTO_TEST_CASE(values_spread_over_the_whole_range) {
  StagGenerator stags;
  int bits[32] = {};
  int changed = 0;
  std::uint32_t last = 0;
  constexpr int kCount = 10000;
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t stag = stags.next();
    for (int bit = 0; bit < 32; ++bit) bits[bit] += static_cast<int>(stag >> bit & 1);
    changed += std::popcount(stag ^ last);
    last = stag;
  }
  for (const int ones : bits) BOOST_TEST((ones > kCount * 45 / 100 && ones < kCount * 55 / 100));
  BOOST_TEST((changed > kCount * 15 && changed < kCount * 17));
}

BOOST_AUTO_TEST_CASE(keys_differ_from_one_to_the_next) {
  StagGenerator one;
  StagGenerator other;
  BOOST_TEST((one.next() != other.next() || one.next() != other.next()));
}

BOOST_AUTO_TEST_SUITE_END()
