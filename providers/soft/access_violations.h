// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/wait_word.h"
#include "dapl/transport/cm.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace udapl::soft {

// Counts, by host, how often peers name memory that they have no right to access. Each such access
// breaks the connection. To keep a peer from trying one STag after the other on new connections, a
// host that has done so kMost times within kPeriod cannot connect until the period is over. At that
// rate, trying half of all STags takes years. Thread-safe, leaf lock. Owned by the
// ConnectionManager.
class AccessViolations {
 public:
  static constexpr int kMost = 100;
  static constexpr auto kPeriod = std::chrono::seconds(10);

  AccessViolations() noexcept;
  void note(const transport::SocketAddress& remote) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool too_many(const transport::SocketAddress& remote) noexcept
      UDAPL_EXCLUDES(lock_);

 private:
  // A hash with a secret key spreads hosts over a fixed number of counters.
  static constexpr std::size_t kCounters = 512;
  struct Counter {
    Clock::time_point begun;
    int count = 0;
  };
  [[nodiscard]] Counter& counter_of(const transport::SocketAddress& remote) noexcept
      UDAPL_REQUIRES(lock_);

  const std::uint64_t key_;
  Mutex lock_;
  std::array<Counter, kCounters> counters_ UDAPL_GUARDED_BY(lock_);
};

}  // namespace udapl::soft
