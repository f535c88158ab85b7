// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/qp_map.h"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <map>
#include <random>

namespace udapl::verbs {

namespace {

Queue* queue(std::uint32_t number) { return reinterpret_cast<Queue*>(std::uintptr_t{number} << 4); }
void add(QpMap& map, std::uint32_t number) {
  if (const std::uint32_t size = map.wanted_size(); size != 0) {
    QpMap::Table table(size);
    map.grow(table);
  }
  map.add({number, queue(number), nullptr, nullptr});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(qp_map)

BOOST_AUTO_TEST_CASE(each_use_counts) {
  QpMap map;
  BOOST_CHECK(map.empty());
  add(map, 17);
  add(map, 17);
  BOOST_CHECK(!map.remove(17));
  BOOST_REQUIRE(map.find(17) != nullptr);
  BOOST_CHECK(map.find(17)->queue == queue(17));
  BOOST_CHECK(map.remove(17));
  BOOST_CHECK(map.find(17) == nullptr);
  BOOST_CHECK(map.empty());
  BOOST_CHECK(!map.remove(17));  // no effect: not in the map
}

// Compared with std::map, using numbers that collide in the table.
BOOST_AUTO_TEST_CASE(map_agrees_with_a_model) {
  const unsigned seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  const auto some_number = [&] {
    return static_cast<std::uint32_t>(random() % 64 * 8 + random() % 3);
  };
  QpMap map;
  std::map<std::uint32_t, int> model;
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t number = some_number();
    if (random() % 2 == 0) {
      add(map, number);
      ++model[number];
    } else if (model.count(number) != 0) {
      static_cast<void>(map.remove(number));
      if (--model[number] == 0) model.erase(number);
    }
    const std::uint32_t other = some_number();
    const QpMap::Entry* const found = map.find(other);
    BOOST_REQUIRE_EQUAL(found != nullptr, model.count(other) != 0);
    if (found != nullptr) BOOST_REQUIRE(found->queue == queue(other));
  }
}

// Connections that are made and ended, each with a new number, do not make look-ups slow or
// endless.
BOOST_AUTO_TEST_CASE(look_ups_end_after_many_removals) {
  QpMap map;
  for (std::uint32_t number = 1; number < 100000; ++number) {
    add(map, number);
    if (number > 3) BOOST_REQUIRE(map.remove(number - 3));
  }
  int left = 0;
  for (std::uint32_t number = 99997; number < 100000; ++number)
    left += map.find(number) != nullptr ? 1 : 0;
  BOOST_CHECK_EQUAL(left, 3);
  BOOST_CHECK(map.find(1) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
