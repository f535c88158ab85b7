// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"

#include <cstdint>
#include <optional>

namespace udapl::transport {

// Where a thread sleeps until an event of one of several CQs arrives that were armed for it
// (Cq::arm_for_place). Nobody else is told of these events, unless arm(), arm_for_waiters() or
// arm_to_block() is called for one of the CQs, or give_up(). Thread-safe. Owned by a CNO; CQs that
// were made for it may outlive it.
class WaitPlace {
 public:
  virtual ~WaitPlace() = default;

  // Sleeps as Adapter::block() does, for one thread at a time, and makes the notifications of the
  // CQs whose events have arrived: even if the deadline has passed. Returns nothing if the place is
  // given up: then Adapter::block() is to be called. No lock may be held.
  virtual std::optional<WaitResult> block(WaitWord& word, std::uint32_t seen,
                                          const Deadline& deadline) noexcept = 0;
  // Makes the notifications of those CQs whose events are waiting, in the caller's thread. No lock
  // may be held.
  virtual void take_events() noexcept = 0;
  // For ever, the notifications are made as those of other CQs. A thread that sleeps here goes on
  // until its word changes. Returns false if the place had been given up before. Any lock may be
  // held.
  virtual bool give_up() noexcept = 0;
};

}  // namespace udapl::transport
