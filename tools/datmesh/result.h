// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a rank knows of its connections, and all of them together. Plain data.
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

/** Of a connection, on one side. */
struct Link {
  double setup_us = 0;  // of the side that has asked for it, 0: none
  double rate = 0;      // MB/s to the other side
  std::string trouble;  // empty: good, and all data were right
};

/** A rank, and its links by the rank of the other side. */
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

/** The links of a rank as one string, and back; what cannot be read has trouble. */
[[nodiscard]] std::string packed(const std::vector<Link>& links);
[[nodiscard]] std::vector<Link> unpacked(const std::string& text, std::size_t count);

/** Who meets whom in a step, so that after `steps_of(ranks)` everybody met everybody: the rank
 *  itself if nobody. */
[[nodiscard]] std::uint32_t steps_of(std::uint32_t ranks);
[[nodiscard]] std::uint32_t partner_of(std::uint32_t rank, std::uint32_t step, std::uint32_t ranks);

}  // namespace datmesh
