// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/access_violations.h"

#include <algorithm>

#include <sys/random.h>

#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"

namespace udapl::soft {

namespace {

std::uint64_t random_word() noexcept {
  std::uint64_t word = 0;
  // If there is no random number, hosts may find out which of them share a set of counters, and use
  // all counters of a set.
  [[maybe_unused]] const ssize_t got = ::getrandom(&word, sizeof word, GRND_NONBLOCK);
  return word;
}

}  // namespace

AccessViolations::AccessViolations() noexcept : key_(random_word()) {}

AccessViolations::Set& AccessViolations::set_of(const Network& host) noexcept {
  std::uint64_t hash = key_;
  for (const std::uint8_t byte : host) hash = (hash ^ byte) * 0x9E3779B97F4A7C15U;
  return counters_[(hash >> 32) % kSets];
}

// Returns the counter of the host; null if it has none. Counters whose period is over become
// unused.
AccessViolations::Counter* AccessViolations::find(Set& set, const Network& host,
                                                  Clock::time_point now) noexcept {
  Counter* found = nullptr;
  for (Counter& counter : set) {
    if (now - counter.begun > kPeriod) counter.count = 0;
    if (counter.count != 0 && counter.host == host) found = &counter;
  }
  return found;
}

void AccessViolations::note(const transport::SocketAddress& remote) noexcept {
  const Clock::time_point now = Clock::now();
  const Network host = network_of(remote, 32);
  bool limited = false;
  {
    const ScopedLock guard(lock_);
    Set& set = set_of(host);
    Counter* counter = find(set, host, now);
    if (counter == nullptr) {
      counter = &*std::ranges::min_element(set, {}, &Counter::count);
      *counter = {host, now, 0};
    }
    limited = ++counter->count == kMax;
  }
  if (limited)
    UDAPL_TRACE(kNormal,
                "%s has tried to access memory without permission %d times: refusing its "
                "connections for %d s",
                to_text(remote).c_str(), kMax, static_cast<int>(kPeriod.count()));
}

bool AccessViolations::too_many(const transport::SocketAddress& remote) noexcept {
  const Network host = network_of(remote, 32);
  const ScopedLock guard(lock_);
  const Counter* const counter = find(set_of(host), host, Clock::now());
  return counter != nullptr && counter->count >= kMax;
}

}  // namespace udapl::soft
