// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"

#include <cstdint>
#include <optional>

namespace udapl::transport {

// Where a thread sleeps until an event arrives of any CQ that was armed for the place
// (Cq::arm_for_place). Only that thread is notified of these events, until arm(), arm_for_waiters()
// or arm_to_block() is called for a CQ, or give_up() for the place. Thread-safe. Owned by a CNO;
// CQs that were created for it may outlive it.
class WaitPlace {
 public:
  virtual ~WaitPlace() = default;

  // Sleeps as Adapter::block() does, one thread at a time, and calls CqSink::on_notify for each CQ
  // whose event has arrived, even if the deadline has passed. Returns nullopt if the place is given
  // up: the caller then calls Adapter::block(). No lock may be held.
  virtual std::optional<WaitResult> block(WaitWord& word, std::uint32_t seen,
                                          const Deadline& deadline) noexcept = 0;
  // Calls CqSink::on_notify, in the caller's thread, for each CQ whose event is waiting. No lock
  // may be held.
  virtual void take_events() noexcept = 0;
  // From now on, and for good, the CQs of this place notify as all other CQs do. A thread that
  // sleeps here continues to sleep until its word changes. Returns false if the place had been
  // given up before. Any lock may be held.
  virtual bool give_up() noexcept = 0;
};

}  // namespace udapl::transport
