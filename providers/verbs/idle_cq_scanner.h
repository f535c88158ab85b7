// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "providers/reactor/coarse_clock.h"
#include "providers/reactor/watch.h"

#include <atomic>
#include <chrono>
#include <vector>

namespace udapl::verbs {

class Cq;

// Scans the CQs that no thread polls. Only a scan can find out that a request has failed, which
// ends its connection, while the consumer waits only for connection events, and how many buffers of
// an SRQ have been consumed. Thread-safe. Owned by the Adapter. adr 0049.
class IdleCqScanner {
 public:
  // The time between scans, in which a failure may go unnoticed. It grows up to kLongestInterval
  // while all CQs are polled, because each scan disturbs a consumer that waits repeatedly.
  static constexpr auto kInterval = std::chrono::milliseconds(100);
  static constexpr auto kLongestInterval = std::chrono::milliseconds(800);

  explicit IdleCqScanner(Reactor& reactor) noexcept
      : timer_(reactor, Call::to<&IdleCqScanner::on_timer>(this)) {}
  IdleCqScanner(const IdleCqScanner&) = delete;
  IdleCqScanner& operator=(const IdleCqScanner&) = delete;

  void join(Cq& cq) UDAPL_EXCLUDES(lock_);  // throws std::bad_alloc
  // Waits for a running scan of `cq`.
  void leave(Cq& cq) noexcept UDAPL_EXCLUDES(lock_);
  // Called when a QP is attached to a CQ: scans until no CQ has a QP any more.
  void start() noexcept UDAPL_EXCLUDES(lock_);
  // Scans all CQs now, idle or not. Locks of the core may be held, but none of a CQ.
  void scan_all() noexcept UDAPL_EXCLUDES(lock_);
  // Called by the driving thread when a completion has arrived, with no lock held. If a scan is
  // about to become due, makes it now, so that no thread wakes for it.
  void on_completion() noexcept UDAPL_EXCLUDES(lock_) {
    if (coarse_now().time_since_epoch().count() >= soon_.load(std::memory_order_relaxed))
        [[unlikely]]
      on_timer();
  }

 private:
  // When a scan may be made early, in quarters of the interval.
  static constexpr int kEarliest = 3;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  void start_timer() noexcept UDAPL_REQUIRES(lock_);
  void on_timer() noexcept UDAPL_EXCLUDES(lock_);

  Mutex lock_;  // acquired before the locks of the CQs
  std::vector<Cq*> cqs_ UDAPL_GUARDED_BY(lock_);
  bool started_ UDAPL_GUARDED_BY(lock_) = false;
  std::chrono::milliseconds interval_ UDAPL_GUARDED_BY(lock_) = kInterval;  // valid if started_
  std::atomic<Clock::rep> soon_{
      kNever.time_since_epoch().count()};  // when the next scan may be made; written under lock_
  Timer timer_;
};

}  // namespace udapl::verbs
