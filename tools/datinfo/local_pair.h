// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <string>

#include "conf.h"

namespace datinfo {

// What two processes of this host found when they connected over an adapter.
struct LocalPath {
  enum class Kind { kNone, kNoChoice, kTcp, kRings, kShared };
  // kNone: no connection; kNoChoice: the adapter is not the software RNIC, and none was made;
  // kRings: through shared memory, but neither reaches the memory of the other; kShared: both do,
  // or one of them
  Kind kind = Kind::kNone;
  std::string reason;  // why not in the next better way, or why none
};

// Opens the adapter in two child processes, connects them, and has each make an RDMA Read of the
// other's memory. The path and its reason are what the provider traces. Takes `limit` at most.
// REQUIRES: as for Child.
[[nodiscard]] LocalPath try_local_pair(const Entry& entry, std::chrono::milliseconds limit);

}  // namespace datinfo
