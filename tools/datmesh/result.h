// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The results of one rank and of the whole mesh. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace datmesh {

struct Options {
  std::string ia = "soft";
  std::string netns;
  std::uint16_t port = 21400;
  std::uint32_t timeout_s = 20;
  std::uint32_t size = 65536;
  std::uint32_t count = 64;
  std::uint32_t window = 8;
  double slow = 0.5;
  std::string json;
  std::string html;
};

/** The result of a connection, as seen from one side. */
struct Link {
  double setup_us = 0;  // set-up time; 0 on the side that accepted
  double rate = 0;      // MB/s to the other side
  std::string problem;  // empty if the link works and all data were right
};

/** A rank and its links, indexed by the rank of the other side. */
struct Rank {
  std::string host;
  std::vector<Link> links;
};

struct Mesh {
  std::string date;
  std::string command;
  Options options;
  std::vector<Rank> ranks;
};

/** Convert the links of a rank to one string and back. A link that cannot be read gets a
 *  `problem`. */
[[nodiscard]] std::string packed(const std::vector<Link>& links);
[[nodiscard]] std::vector<Link> unpacked(const std::string& text, std::size_t count);

/** The schedule of the transfers: partner_of() is the partner of `rank` in a step, or `rank` itself
 *  if it has none. After steps_of(ranks) steps every pair has met. */
[[nodiscard]] std::uint32_t steps_of(std::uint32_t ranks);
[[nodiscard]] std::uint32_t partner_of(std::uint32_t rank, std::uint32_t step, std::uint32_t ranks);

}  // namespace datmesh
