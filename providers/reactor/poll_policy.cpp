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

// Whether this yield asks the kernel if other threads have run. While they run, only some yields
// do, because every process that yields makes the others wait for its further system calls.
bool PollPolicy::check_due() noexcept {
  if (!contended()) return true;
  const std::uint32_t unchecked = unchecked_.load(std::memory_order_relaxed) + 1;
  const bool due = unchecked >= tuning::kYieldsPerCheck;
  unchecked_.store(due ? 0 : unchecked, std::memory_order_relaxed);
  return due;
}

// Returns, after a find while other threads run, how many polls precede the next yield. If the peer
// that will answer runs on another processor, it answers within kPatientPolls. Otherwise it waits
// for a processor, perhaps for this one.
std::uint32_t PollPolicy::patience() noexcept {
  const bool brief = last_yield_.load(std::memory_order_relaxed) == Others::kBriefly;
  last_yield_.store(Others::kNone, std::memory_order_relaxed);
  const std::uint32_t row = brief ? after_yields_.load(std::memory_order_relaxed) + 1 : 0;
  after_yields_.store(row, std::memory_order_relaxed);
  const bool patient = row < tuning::kImpatientAfter || row % tuning::kPatientAgain == 0;
  return patient ? tuning::kPatientPolls : tuning::kContendedStride;
}

void PollPolicy::yield(std::uint32_t poll) noexcept {
  const Clock::time_point before = Clock::now();
  ::sched_yield();
  const Clock::duration took = Clock::now() - before;
  const bool ran = took > tuning::kContendedYield && (!check_due() || others_ran());
  yielded(poll, !ran                        ? Others::kNone
                : took < tuning::kLongYield ? Others::kBriefly
                                            : Others::kLong);
}

}  // namespace udapl
