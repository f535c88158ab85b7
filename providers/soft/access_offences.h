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

// Counts, by the host that they come from, how often peers name memory that they have no right to.
// Each time costs them a connection; here is what keeps them from trying one STag after the other:
// a host that has done it kMost times within kPeriod gets no connection until the period is over.
// At that rate half of all STags take years. Thread-safe, leaf lock. Owned by the
// ConnectionManager.
class AccessOffences {
 public:
  static constexpr int kMost = 100;
  static constexpr auto kPeriod = std::chrono::seconds(10);

  AccessOffences() noexcept;
  void note(const transport::SocketAddress& remote) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool too_many(const transport::SocketAddress& remote) noexcept
      UDAPL_EXCLUDES(lock_);

 private:
  // Hosts are spread over a fixed number of counters by a secret key.
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
