// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace udapl::verbs {

namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

bool has_process_barrier() noexcept {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered;
}

void process_barrier() noexcept { membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }

}  // namespace udapl::verbs
