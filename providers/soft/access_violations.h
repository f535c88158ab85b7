// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/wait_word.h"
#include "dapl/transport/cm.h"
#include "providers/soft/network.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace udapl::soft {

// Counts, by host, how often peers try to access memory to which they have no right. Each such
// access breaks the connection. A host that has made kMax such accesses within kPeriod cannot
// connect until the period is over, so that a peer cannot try one STag after the other on new
// connections: at that rate, half of all STags take years. Thread-safe, leaf lock. Owned by the
// TcpConnector.
class AccessViolations {
 public:
  static constexpr int kMax = 100;
  static constexpr auto kPeriod = std::chrono::seconds(10);

  AccessViolations() noexcept;
  void note(const transport::SocketAddress& remote) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool too_many(const transport::SocketAddress& remote) noexcept
      UDAPL_EXCLUDES(lock_);

 private:
  // The number of counters is fixed. A hash with a secret key selects a set of them for each host.
  // If all counters of the set are in use, a new host takes over the one with the lowest count. So
  // if there are more hosts than counters, not all hosts are limited, but no host is ever limited
  // for what others did.
  static constexpr std::size_t kSets = 64;
  static constexpr std::size_t kPerSet = 8;
  struct Counter {
    Network host{};
    Clock::time_point begun;
    int count = 0;  // 0: unused
  };
  using Set = std::array<Counter, kPerSet>;
  [[nodiscard]] Set& set_of(const Network& host) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] static Counter* find(Set& set, const Network& host, Clock::time_point now) noexcept;

  const std::uint64_t key_;
  Mutex lock_;
  std::array<Set, kSets> counters_ UDAPL_GUARDED_BY(lock_);
};

}  // namespace udapl::soft
