// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What is said about a mesh. The functions only make text.
#pragma once

#include "result.h"

namespace datmesh {

/** A link that is worth a word. */
struct Finding {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::string what;
};

/** Pairs of which something failed, each once. */
[[nodiscard]] std::vector<Finding> failures_of(const Mesh& mesh);
/** Directions whose rate is below options.slow of the median, the slowest first. */
[[nodiscard]] std::vector<Finding> slow_of(const Mesh& mesh);

[[nodiscard]] std::string text_of(const Mesh& mesh);
[[nodiscard]] std::string json_of(const Mesh& mesh);
/** A page with heat maps of rates and set-up times; needs nothing else. */
[[nodiscard]] std::string html_of(const Mesh& mesh);

/** "rank 3 (host)" */
[[nodiscard]] std::string name_of(const Mesh& mesh, std::uint32_t rank);

}  // namespace datmesh
