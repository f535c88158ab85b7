// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/poll_policy.h"

#include <sched.h>
#include <sys/resource.h>

namespace udapl {

// Returns whether other threads ran since the last call. In a virtual machine, a yield may take
// long even if none did.
bool PollPolicy::others_ran() noexcept {
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) != 0) return true;
  const long switches = usage.ru_nvcsw + usage.ru_nivcsw;
  return switches != switches_.exchange(switches, std::memory_order_relaxed);
}

void PollPolicy::yield(std::uint32_t poll) noexcept {
  const Clock::time_point before = Clock::now();
  ::sched_yield();
  yielded(poll, Clock::now() - before > tuning::kContendedYield && others_ran());
}

}  // namespace udapl
