// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE datmesh
#include "tools/datmesh/result.h"

#include <boost/test/unit_test.hpp>
#include <set>

using namespace datmesh;

BOOST_AUTO_TEST_CASE(each_pair_of_ranks_meets_once) {
  for (std::uint32_t ranks = 1; ranks < 70; ++ranks) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> met;
    for (std::uint32_t step = 0; step < steps_of(ranks); ++step)
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const std::uint32_t partner = partner_of(rank, step, ranks);
        BOOST_REQUIRE(partner < ranks);
        BOOST_REQUIRE_EQUAL(partner_of(partner, step, ranks), rank);
        if (partner != rank) BOOST_REQUIRE(met.emplace(rank, partner).second);
      }
    BOOST_TEST(met.size() == ranks * (ranks - 1));
  }
}

BOOST_AUTO_TEST_CASE(links_survive_packing) {
  const auto links = unpacked(packed({{12.5, 0, ""}, {0, 3.25, "no answer in 5 s"}}), 2);
  BOOST_TEST_REQUIRE(links.size() == 2U);
  BOOST_TEST(links[0].setup_us == 12.5);
  BOOST_TEST(links[0].problem.empty());
  BOOST_TEST(links[1].rate == 3.25);
  BOOST_TEST(links[1].problem == "no answer in 5 s");
}

BOOST_AUTO_TEST_CASE(missing_links_are_problems) {
  const auto links = unpacked("1 2 \nnonsense\n", 3);
  BOOST_TEST_REQUIRE(links.size() == 3U);
  BOOST_TEST(links[0].problem.empty());
  BOOST_TEST(!links[1].problem.empty());
  BOOST_TEST(!links[2].problem.empty());
}
