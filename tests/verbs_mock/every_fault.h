// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "mock_control.h"
#include "run.h"

namespace faults {

// Runs `scenario` for N = 1, 2, ..., where the N-th call into verbs or rdma_cm that can fail does:
// each run ends in a documented error or event, nothing hangs, and nothing is left. The first and
// the last run are without a fault, and the scenario has to succeed. Once with an adapter for one
// thread, once with one for many.
void for_every_fault(bool (*scenario)(Pair& pair), const char* adapter = "mock");

[[nodiscard]] inline DAT_DTO_COOKIE cookie(DAT_UINT64 value) {
  DAT_DTO_COOKIE made{};
  made.as_64 = value;
  return made;
}

// A message of 32 bytes from the active to the passive EP.
[[nodiscard]] bool send(Pair& pair);
// RDMA Write by the active EP.
[[nodiscard]] bool write_to(Pair& pair, const DAT_RMR_TRIPLET& where);

}  // namespace faults
