// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// An RDMA Write or Read that may be possible without the peer (docs/adr/0035).
struct Reach {
  bool write = false;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t length = 0;  // > 0
};

}  // namespace udapl::soft
