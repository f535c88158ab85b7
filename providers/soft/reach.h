// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// An RDMA Write or Read of memory that the peer may not need to be asked for.
struct Reach {
  bool write = false;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t length = 0;  // > 0
};

}  // namespace udapl::soft
