// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reports about a mesh. The functions only produce text.
#pragma once

#include "result.h"

namespace datmesh {

/** A link that the report mentions. */
struct Finding {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::string what;
};

/** Pairs of ranks with a failure, each pair once. */
[[nodiscard]] std::vector<Finding> failures_of(const Mesh& mesh);
/** Directions whose rate is below options.slow times the median, the slowest first. */
[[nodiscard]] std::vector<Finding> slow_of(const Mesh& mesh);

[[nodiscard]] std::string text_of(const Mesh& mesh);
[[nodiscard]] std::string json_of(const Mesh& mesh);
/** A self-contained page with heat maps of rates and set-up times. */
[[nodiscard]] std::string html_of(const Mesh& mesh);

/** The name of a rank, such as "rank 3 (host)". */
[[nodiscard]] std::string name_of(const Mesh& mesh, std::uint32_t rank);

}  // namespace datmesh
