// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/process_barrier.h"

#include "common/not_cancelled.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace udapl {

namespace {

constexpr std::chrono::milliseconds kStoresAreSeen{1};

bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

void prepare_process_barrier() noexcept {
  static_cast<void>(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

void process_barrier() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) [[likely]]
    return;
  const NotCancelled scope;
  std::this_thread::sleep_for(kStoresAreSeen);
}

}  // namespace udapl
