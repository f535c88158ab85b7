// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/waiting.h"

#include <atomic>
#include <cstdint>

namespace udapl::dapl {

class Ia;

// Threads that are inside an Ia although no handle of theirs is locked: blocked waiters and running
// proxy agents. dat_ia_close waits for them. Thread-safe. Owned by an Ia.
//
// Only a visitor that leaves after the thread that closes the Ia has said that it waits wakes that
// thread. Both say so in one word, so one of them comes first. If it is the visitor, the closer
// finds it gone; if it is the closer, the visitor sees kCloserWaits, and signals when it is gone.
class Visits {
 public:
  // Either the visitor's later reads see what was written before wait_until_empty(), or
  // wait_until_empty() sees the visitor. Holds for words that both sides access with seq_cst.
  void enter() noexcept { inside_.fetch_add(1, std::memory_order_seq_cst); }
  // The caller must not touch the Ia after this.
  void leave() noexcept {
    // release: everything the visitor did happens before the Ia is destroyed.
    const std::uint32_t before = inside_.fetch_sub(1, std::memory_order_release);
    if ((before & kCloserWaits) != 0) [[unlikely]]
      wake_closer();
  }
  // Returns when no visitor is inside; those that enter later wake again. Ends the WaitVisits of
  // the calling thread. REQUIRES: what has been written keeps new visitors from staying.
  void wait_until_empty() noexcept;

 private:
  static constexpr std::uint32_t kCloserWaits = 1U << 31;

  static void wake_closer() noexcept;

  // The visitors, and kCloserWaits from the first wait_until_empty() on: then the Ia is about to be
  // destroyed.
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

// The visit of a thread that sleeps in an Ia. A signal handler that interrupts the sleep may close
// the Ia, or leave the sleep by longjmp, after which the thread closes the Ia: since the visit
// would not end before, the thread that closes ends its own ones, and a thread that ends all of
// them. Used by one thread, in one function.
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
// returns false if one of the visitors, an agent, waits in turn for an agent that this thread runs,
// because it closes an Ia or destroys the object being called: the two would deadlock.
class Closing final : public Waiting {
 public:
  explicit Closing(const Ia& ia) noexcept : ia_(ia) {}
  ~Closing() { end(); }

 private:
  [[nodiscard]] bool is_blocked_by(const Waiting& other) const noexcept override;

  const Ia& ia_;
};

}  // namespace udapl::dapl
