// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/waiting.h"

#include <atomic>
#include <cstdint>

namespace udapl::dapl {

class Ia;

// Counts the threads that are inside an Ia: waiters, calls with an IA handle, and pending or
// running calls of proxy agents. dat_ia_close waits for them. Thread-safe. Owned by an Ia.
//
// A visitor wakes the closing thread only if that thread has begun to wait. To leave and to begin
// to wait are atomic operations on one word, so one of them comes first. If the visitor leaves
// first, the closing thread does not count it. Otherwise the visitor sees kCloserWaits as it
// leaves, and signals afterwards.
class Visits {
 public:
  // Either the visitor's later reads see what was written before wait_until_empty(), or
  // wait_until_empty() sees the visitor, provided that both threads use seq_cst for those words.
  void enter() noexcept { inside_.fetch_add(1, std::memory_order_seq_cst); }
  // The caller must not touch the Ia after this.
  void leave() noexcept {
    // release: everything the visitor did happens before the Ia is destroyed.
    const std::uint32_t before = inside_.fetch_sub(1, std::memory_order_release);
    if ((before & kCloserWaits) != 0) [[unlikely]]
      wake_closer();
  }
  // Waits until no visitor is inside. Ends the WaitVisits of the calling thread. REQUIRES:
  // something that was written before makes visitors that enter later leave at once.
  void wait_until_empty() noexcept;

 private:
  static constexpr std::uint32_t kCloserWaits = 1U << 31;

  static void wake_closer() noexcept;

  // The number of visitors, and kCloserWaits from the first wait_until_empty() on, after which the
  // Ia is destroyed.
  std::atomic<std::uint32_t> inside_{0};
};

// One visit, for a scope.
class Visit {
 public:
  explicit Visit(Visits& visits) noexcept : visits_(visits) { visits_.enter(); }
  ~Visit() { visits_.leave(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Visits& visits_;
};

// The visit of a thread that sleeps in an Ia. It may never end by itself: a signal handler that
// interrupts the sleep may close the Ia, or leave the sleep by longjmp. So a thread that closes an
// Ia ends its own visits of that Ia, and a thread that exits ends all of its visits. Used by one
// thread, in one function.
class WaitVisit {
 public:
  WaitVisit() = default;
  WaitVisit(const WaitVisit&) = delete;
  WaitVisit& operator=(const WaitVisit&) = delete;

  void begin(Visits& visits) noexcept;
  void end() noexcept;  // no effect if left()
  // Whether the Ia was closed by this thread meanwhile. It must not be touched then.
  [[nodiscard]] bool left() const noexcept;

 private:
  friend class Visits;
  struct Own;

  Visits* visits_ = nullptr;
  Own* own_ = nullptr;  // null: not recorded
  std::uint32_t number_ = 0;
};

// Marks, for a scope, that a thread closes an Ia and is about to wait for its visitors. begin()
// returns false if that would be a deadlock: one of the visitors is an agent that closes another Ia
// or destroys an object, and thereby waits for an agent or sink call that this thread runs.
class Closing final : public Waiting {
 public:
  explicit Closing(const Ia& ia) noexcept : ia_(ia) {}
  ~Closing() { end(); }

 private:
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override;

  const Ia& ia_;
};

}  // namespace udapl::dapl
