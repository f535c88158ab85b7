// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "result.h"

#include <fmt/core.h>

#include <sstream>

namespace datmesh {

std::string packed(const std::vector<Link>& links) {
  std::string text;
  for (const Link& link : links)
    text += fmt::format("{:.3f} {:.3f} {}\n", link.setup_us, link.rate, link.problem);
  return text;
}

std::vector<Link> unpacked(const std::string& text, std::size_t count) {
  std::vector<Link> links;
  std::istringstream lines(text);
  for (std::string line; links.size() < count && std::getline(lines, line);) {
    std::istringstream words(line);
    Link link;
    if (!(words >> link.setup_us >> link.rate)) break;
    words.get();
    std::getline(words, link.problem);
    links.push_back(link);
  }
  links.resize(count, Link{0, 0, "the rank reported no result"});
  return links;
}

std::uint32_t steps_of(std::uint32_t ranks) { return ranks + ranks % 2 - 1; }

// The circle method of round-robin tournaments. An odd number of ranks is filled up with a dummy,
// whose partner has nothing to do in that step.
std::uint32_t partner_of(std::uint32_t rank, std::uint32_t step, std::uint32_t ranks) {
  const std::uint32_t even = ranks + ranks % 2;
  const std::uint32_t circle = even - 1;
  std::uint32_t partner = (step + circle - rank % circle) % circle;
  if (rank == circle)
    partner = step * (even / 2) % circle;
  else if (partner == rank)
    partner = circle;
  return partner < ranks ? partner : rank;
}

}  // namespace datmesh
