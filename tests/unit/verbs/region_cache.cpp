// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/region_cache.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <thread>

namespace udapl::verbs {

namespace {

constexpr KnownRegion kRegion{.key = 0x1234, .first = 0x10000, .length = 100, .writable = false};

DAT_LMR_TRIPLET segment(DAT_VADDR address, DAT_SEG_LENGTH length) {
  DAT_LMR_TRIPLET made{};
  made.virtual_address = address;
  made.segment_length = length;
  made.lmr_context = kRegion.key;
  return made;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(region_cache)

BOOST_AUTO_TEST_CASE(a_region_contains_each_byte_up_to_its_last) {
  BOOST_CHECK(kRegion.contains(segment(0x10000, 100)));
  BOOST_CHECK(kRegion.contains(segment(0x10000 + 99, 1)));
  BOOST_CHECK(!kRegion.contains(segment(0x10000 + 99, 2)));
  BOOST_CHECK(!kRegion.contains(segment(0x10000 - 1, 2)));
  BOOST_CHECK(!kRegion.contains(segment(0x10000, 101)));
  BOOST_CHECK(!kRegion.contains(segment(UINT64_MAX, UINT32_MAX)));
}

BOOST_AUTO_TEST_CASE(nothing_is_known_at_first) {
  const RegionCache cache;
  BOOST_CHECK(cache.find(0) == nullptr);
  BOOST_CHECK(cache.find(UINT32_MAX) == nullptr);
  BOOST_CHECK(!cache.allows(0, 0));
}

BOOST_AUTO_TEST_CASE(regions_are_known_by_key_until_all_is_forgotten) {
  RegionCache cache;
  cache.remember(kRegion, cache.forgotten());
  BOOST_REQUIRE(cache.find(kRegion.key) != nullptr);
  BOOST_CHECK_EQUAL(cache.find(kRegion.key)->first, kRegion.first);
  BOOST_CHECK(cache.find(kRegion.key + 1) == nullptr);
  cache.forget();
  BOOST_CHECK(cache.find(kRegion.key) == nullptr);
}

BOOST_AUTO_TEST_CASE(one_region_is_forgotten_by_its_key) {
  RegionCache cache;
  KnownRegion other = kRegion;
  other.key = 0x5634;
  const std::uint64_t before = cache.forgotten();
  cache.remember(kRegion, before);
  cache.remember(other, before);
  cache.prime(7, 1000, 3, before);
  cache.forget(kRegion.key);
  BOOST_CHECK(cache.find(kRegion.key) == nullptr);
  BOOST_CHECK(cache.find(other.key) != nullptr);
  BOOST_CHECK(!cache.allows(7, 1000));  // it may have been primed with that region
  cache.remember(kRegion, before);      // ignored: looked up before it was forgotten
  BOOST_CHECK(cache.find(kRegion.key) == nullptr);
}

BOOST_AUTO_TEST_CASE(primed_for_a_tag_and_so_many_addresses) {
  RegionCache cache;
  cache.prime(7, 1000, 3, cache.forgotten());
  BOOST_CHECK(!cache.allows(7, 999));
  BOOST_CHECK(cache.allows(7, 1000));
  BOOST_CHECK(cache.allows(7, 1002));
  BOOST_CHECK(!cache.allows(7, 1003));
  BOOST_CHECK(!cache.allows(8, 1000));
  cache.forget();
  BOOST_CHECK(!cache.allows(7, 1000));
}

// The registration ended between its look-up and remember().
BOOST_AUTO_TEST_CASE(find_that_is_forgotten_meanwhile_is_not_kept) {
  RegionCache cache;
  const std::uint64_t before = cache.forgotten();
  cache.forget();
  cache.remember(kRegion, before);
  cache.prime(7, 1000, 3, before);
  BOOST_CHECK(cache.find(kRegion.key) == nullptr);
  BOOST_CHECK(!cache.allows(7, 1000));
}

BOOST_AUTO_TEST_CASE(blocked_it_allows_nothing_and_still_knows) {
  RegionCache cache;
  cache.remember(kRegion, cache.forgotten());
  cache.prime(7, 1000, 3, cache.forgotten());
  cache.block(true);
  BOOST_CHECK(!cache.allows(7, 1000));
  cache.prime(7, 1000, 3, cache.forgotten());
  BOOST_CHECK(!cache.allows(7, 1000));
  BOOST_CHECK(cache.find(kRegion.key) != nullptr);
  cache.block(false);
  cache.prime(7, 1000, 3, cache.forgotten());
  BOOST_CHECK(cache.allows(7, 1000));
}

// A posting thread looks up a registration that another thread ends. After that thread has
// returned, and the posting thread has looked once more, nothing is allowed any more.
BOOST_AUTO_TEST_CASE(forgotten_while_it_is_being_kept) {
  constexpr int kRounds = 3000;
  RegionCache cache;
  std::atomic<bool> registered{false};
  std::atomic<int> ended{0};
  std::atomic<int> seen{0};
  int wrong = 0;
  std::thread owner([&] {
    for (int round = 1; round <= kRounds; ++round) {
      registered.store(true);
      while (seen.load() != round) std::this_thread::yield();
      registered.store(false);
      cache.forget();
      ended.store(round);
      while (seen.load() != -round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    while (!registered.load()) std::this_thread::yield();
    seen.store(round);
    while (ended.load() != round) {
      const std::uint64_t forgotten = cache.forgotten();
      if (registered.load()) {
        cache.remember(kRegion, forgotten);
        cache.prime(7, 1000, 3, forgotten);
      }
    }
    if (cache.find(kRegion.key) != nullptr || cache.allows(7, 1000)) ++wrong;
    seen.store(-round);
  }
  owner.join();
  BOOST_CHECK_EQUAL(wrong, 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
