// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/access_violations.h"

#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/network.h"

#include <sys/random.h>

namespace udapl::soft {

namespace {

std::uint64_t random_word() noexcept {
  std::uint64_t word = 0;
  // Without a random key, a peer can find out which hosts share its counter. That harms only them.
  [[maybe_unused]] const ssize_t got = ::getrandom(&word, sizeof word, GRND_NONBLOCK);
  return word;
}

}  // namespace

AccessViolations::AccessViolations() noexcept : key_(random_word()) {}

AccessViolations::Counter& AccessViolations::counter_of(
    const transport::SocketAddress& remote) noexcept {
  std::uint64_t hash = key_;
  for (const std::uint8_t byte : network_of(remote, 32)) hash = (hash ^ byte) * 0x9E3779B97F4A7C15U;
  return counters_[(hash >> 32) % kCounters];
}

void AccessViolations::note(const transport::SocketAddress& remote) noexcept {
  const Clock::time_point now = Clock::now();
  bool limited = false;
  {
    const ScopedLock guard(lock_);
    Counter& counter = counter_of(remote);
    if (counter.count == 0 || now - counter.begun > kPeriod) counter = {now, 0};
    limited = ++counter.count == kMost;
  }
  if (limited)
    UDAPL_TRACE(kNormal,
                "%s has tried to access memory without permission %d times: refusing its "
                "connections for %d s",
                to_text(remote).c_str(), kMost, static_cast<int>(kPeriod.count()));
}

bool AccessViolations::too_many(const transport::SocketAddress& remote) noexcept {
  const ScopedLock guard(lock_);
  const Counter& counter = counter_of(remote);
  return counter.count >= kMost && Clock::now() - counter.begun <= kPeriod;
}

}  // namespace udapl::soft
