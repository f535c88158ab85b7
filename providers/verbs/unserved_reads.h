// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/verbs/work_tag.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

namespace udapl::verbs {

// Records whether the peer serves Reads, which it does if the read depths of both sides are not 0.
// If it does not, a Read would wait forever on some devices. So the Queue posts a request instead
// that fails without reaching the peer, and reports for it the status that the peer would have
// answered.
//
// Thread-safe. Owned by a Queue.
class UnservedReads {
 public:
  // Called when a set-up begins.
  void clear() noexcept {
    served_.store(true, std::memory_order_relaxed);
    first_.store(0, std::memory_order_relaxed);
  }
  void set_served(bool served) noexcept { served_.store(served, std::memory_order_relaxed); }
  [[nodiscard]] bool served() const noexcept { return served_.load(std::memory_order_relaxed); }

  // Called before a request is posted instead of a Read. The first one ends the connection.
  void add(std::uint64_t wr_id) noexcept {
    std::uint64_t none = 0;
    first_.compare_exchange_strong(none, wr_id, std::memory_order_acq_rel);
  }
  // The status to report for a failed request for which the device reports `status`.
  [[nodiscard]] ibv_wc_status meaning_of(std::uint64_t wr_id, ibv_wc_status status) const noexcept {
    const bool unserved = status != IBV_WC_WR_FLUSH_ERR && wr_id != kMarker &&
                          wr_id == first_.load(std::memory_order_acquire);
    return unserved ? IBV_WC_REM_OP_ERR : status;
  }

 private:
  std::atomic<bool> served_{true};
  std::atomic<std::uint64_t> first_{0};  // wr_id; 0: none
};

}  // namespace udapl::verbs
