// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "providers/reactor/watch.h"

#include <chrono>
#include <vector>

namespace udapl::verbs {

class Cq;

// Looks into the CQs that nobody polls. Two things are to be had nowhere else: that a request has
// failed, which ends its connection, while the consumer waits for nothing but connection events;
// and how many buffers of an SRQ are taken. Thread-safe. Owned by the Adapter.
class IdleCqScanner {
 public:
  // How long a failure may go unnoticed. The interval grows while all CQs are polled: each scan
  // interrupts a consumer that waits again and again.
  static constexpr auto kInterval = std::chrono::milliseconds(100);
  static constexpr auto kLongestInterval = std::chrono::milliseconds(800);

  explicit IdleCqScanner(Reactor& reactor) noexcept
      : timer_(reactor, Call::to<&IdleCqScanner::on_timer>(this)) {}
  IdleCqScanner(const IdleCqScanner&) = delete;
  IdleCqScanner& operator=(const IdleCqScanner&) = delete;

  void join(Cq& cq) UDAPL_EXCLUDES(lock_);  // throws std::bad_alloc
  // Waits for a scan of it.
  void leave(Cq& cq) noexcept UDAPL_EXCLUDES(lock_);
  // A CQ has got QPs: scans begin, until there are none any more.
  void start() noexcept UDAPL_EXCLUDES(lock_);
  // All CQs, idle or not, now. Locks of the core may be held, but none of a CQ.
  void scan_all() noexcept UDAPL_EXCLUDES(lock_);

 private:
  void on_timer() noexcept UDAPL_EXCLUDES(lock_);

  Mutex lock_;  // outside those of the CQs
  std::vector<Cq*> cqs_ UDAPL_GUARDED_BY(lock_);
  bool started_ UDAPL_GUARDED_BY(lock_) = false;
  std::chrono::milliseconds interval_ UDAPL_GUARDED_BY(lock_) = kInterval;  // if started
  Timer timer_;
};

}  // namespace udapl::verbs
