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

// Counts, by host, how often peers name memory that they have no right to access. Each such access
// breaks the connection. To keep a peer from trying one STag after the other on new connections, a
// host that has done so kMax times within kPeriod cannot connect until the period is over. At that
// rate, trying half of all STags takes years. Thread-safe, leaf lock. Owned by the
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
  // The number of counters is fixed. A hash with a secret key gives each host a set of them. If all
  // of a set are in use, a host that is new takes the one that has counted least: more hosts than
  // there are counters are not all limited, but no host is ever limited for what others did.
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
