// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/backoff.h"

#include "common/not_cancelled.h"

#include <chrono>
#include <thread>

#include <sched.h>

namespace udapl {

namespace {

constexpr std::chrono::microseconds kSleep{20};

}  // namespace

void Backoff::let_others_run() noexcept {
  if (turns_ < kPauses + kYields) {
    ::sched_yield();
    return;
  }
  turns_ = kPauses + kYields;  // does not overflow
  if (!waited_long()) ++sleeps_;
  const NotCancelled scope;
  std::this_thread::sleep_for(kSleep);
}

}  // namespace udapl
