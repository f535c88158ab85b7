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
class CqPatrol {
 public:
  // How long a failure may go unnoticed.
  static constexpr auto kInterval = std::chrono::milliseconds(100);

  explicit CqPatrol(Reactor& reactor) noexcept
      : timer_(reactor, Call::to<&CqPatrol::on_timer>(this)) {}
  CqPatrol(const CqPatrol&) = delete;
  CqPatrol& operator=(const CqPatrol&) = delete;

  void join(Cq& cq) UDAPL_EXCLUDES(lock_);  // throws std::bad_alloc
  // Waits for a look into it.
  void leave(Cq& cq) noexcept UDAPL_EXCLUDES(lock_);
  // A CQ has got QPs: rounds begin, until there are none any more.
  void start() noexcept UDAPL_EXCLUDES(lock_);
  // Into all CQs, now. Locks of the core may be held.
  void look() noexcept UDAPL_EXCLUDES(lock_);
  // Into this one, now. Likewise.
  void look_into(Cq& cq) noexcept UDAPL_EXCLUDES(lock_);

 private:
  void on_timer() noexcept UDAPL_EXCLUDES(lock_);
  void look_into_all(bool only_idle) noexcept UDAPL_REQUIRES(lock_);
  void look_into_chosen() noexcept UDAPL_REQUIRES(lock_);

  Mutex lock_;  // outside those of the CQs
  std::vector<Cq*> cqs_ UDAPL_GUARDED_BY(lock_);
  std::vector<Cq*> chosen_ UDAPL_GUARDED_BY(lock_);  // by this look; has room for all
  bool started_ UDAPL_GUARDED_BY(lock_) = false;
  Timer timer_;
};

}  // namespace udapl::verbs
