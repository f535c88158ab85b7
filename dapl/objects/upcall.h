// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/wait_word.h"
#include "common/waiting.h"

#include <atomic>
#include <cstdint>

namespace udapl::dapl {

class Evd;
class Ia;

// Threads that are inside an Ia although no handle of theirs is locked: blocked waiters and running
// proxy agents. dat_ia_close waits for them. Thread-safe. Owned by an Ia.
class Visits {
 public:
  // What the visitor reads after this, of what is written before wait_until_empty(), is new, or
  // wait_until_empty() sees the visitor. For words that both read and write in sequential order.
  void enter() noexcept { inside_.fetch_add(1, std::memory_order_seq_cst); }
  // The caller does not touch the Ia after this.
  void leave() noexcept;
  // Returns when no visitor is inside. REQUIRES: no new visitor can enter.
  void wait_until_empty() noexcept;

 private:
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

// A thread that closes an Ia and is going to wait for its visitors, for a scope. begin() is false
// if one of them, an agent, waits in turn for an agent that this thread runs: the thread closes an
// Ia, or destroys what is being called, and neither would ever go on.
class Closing final : public Waiting {
 public:
  explicit Closing(const Ia& ia) noexcept : ia_(ia) {}
  ~Closing() { end(); }

 private:
  [[nodiscard]] bool is_kept_by(const Waiting& other) const noexcept override;

  const Ia& ia_;
};

// What has to be done after an event was posted, when no lock is held any more: call the
// application's proxy agent, or tell the async EVDs that an EVD overflowed. Empty most of the time.
//
// Runs when it is destroyed, an agent in a thread of the provider's: an application may call DAT
// with a lock that its agent takes, or out of an agent (docs/adr/0027). So `evd.post(event);`
// suffices where no lock is held; code that holds one declares `Upcall upcall;` before the lock's
// scope and assigns to it inside. Movable. Not thread-safe. It keeps the Ia (not the EVD) from
// being closed until it has run.
class Upcall {
 public:
  Upcall() noexcept = default;
  // Calls `agent` with `evd`.
  // `owner`: its CNO, for Ia::agents(). Without an EVD it is the farewell of a CNO, which is called
  // in place: the application is about to free what the agent uses.
  Upcall(Ia& ia, const DAT_OS_WAIT_PROXY_AGENT& agent, Evd* evd, const void* owner) noexcept;
  // Reports that `evd` lost an event.
  static Upcall overflow(Evd& evd) noexcept;
  Upcall(Upcall&& other) noexcept;
  // Runs what it held.
  Upcall& operator=(Upcall&& other) noexcept;
  ~Upcall() { run(); }

  // REQUIRES: the caller holds no lock. Does nothing the second time.
  void run() noexcept;
  // In the calling thread, whichever it is.
  void run_here() noexcept;
  [[nodiscard]] bool empty() const noexcept { return ia_ == nullptr; }

  // Whether the calling thread is running an agent of `ia`.
  [[nodiscard]] static bool running_in_this_thread(const Ia& ia) noexcept;

 private:
  struct Later;
  [[nodiscard]] bool runs_here() const noexcept;
  bool hand_over() noexcept;
  void forget() noexcept;  // without running

  Ia* ia_ = nullptr;
  Evd* evd_ = nullptr;
  DAT_OS_WAIT_PROXY_AGENT agent_{};  // no function: an overflow
  const void* owner_ = nullptr;
};

}  // namespace udapl::dapl
