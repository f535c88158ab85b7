// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "mock_control.h"
#include "run.h"

namespace faults {

// Runs `scenario` for N = 1, 2, ..., where the N-th call into verbs or rdma_cm that can fail does.
// Each run must end in a documented error or event, must not hang, and must leave no objects. The
// first and the last run have no fault; in these the scenario must succeed. All of this is done
// with a single-threaded and with a thread-safe adapter.
void for_every_fault(bool (*scenario)(Pair& pair), const char* adapter = "mock");

[[nodiscard]] inline DAT_DTO_COOKIE cookie(DAT_UINT64 value) {
  DAT_DTO_COOKIE made{};
  made.as_64 = value;
  return made;
}

// Sends a message of 32 bytes from the active to the passive EP.
[[nodiscard]] bool send(Pair& pair);
// Makes the active EP do an RDMA Write.
[[nodiscard]] bool write_to(Pair& pair, const DAT_RMR_TRIPLET& where);

}  // namespace faults
