// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

namespace udapl::dapl {

class Evd;
class Ia;

// Work left to do after an event was posted, once no lock is held: calling the application's proxy
// agent, or notifying the async EVDs that an EVD overflowed. Usually empty.
//
// Runs when it is destroyed. It calls an agent in the IA's agent thread, because the agent may
// block until other threads have made DAT calls (docs/adr/0043). Where no lock is held,
// `evd.post(event).run();` suffices; code that holds one declares `Upcall upcall;` before the
// lock's scope and assigns to it inside. The compiler warns of a result that is dropped. Movable.
// Not thread-safe. It keeps the Ia (not the EVD) from being closed until it has run.
class [[nodiscard]] Upcall {
 public:
  Upcall() noexcept = default;
  // Calls `agent` with `evd`.
  // `owner`: the agent's CNO, for Ia::agents(). A null `evd` is the last call of a CNO's agent,
  // which is made in the calling thread: the application is about to free what the agent uses.
  Upcall(Ia& ia, const DAT_OS_WAIT_PROXY_AGENT& agent, Evd* evd, const void* owner) noexcept;
  // Reports that `evd` lost an event.
  static Upcall overflow(Evd& evd) noexcept;
  Upcall(Upcall&& other) noexcept;
  // Runs the work that it held before.
  Upcall& operator=(Upcall&& other) noexcept;
  ~Upcall() { run(); }

  // REQUIRES: the caller holds no lock. Does nothing the second time.
  void run() noexcept;
  // Runs in the calling thread.
  void run_here() noexcept;
  [[nodiscard]] bool empty() const noexcept { return ia_ == nullptr; }

  // Whether a call of the agent of `owner` with `evd` is queued and has not begun.
  [[nodiscard]] static bool is_queued(Ia& ia, const void* owner, const Evd& evd) noexcept;
  // Makes such calls name `to` instead of `evd`; drops them if `to` is null. Returns whether a call
  // was dropped.
  static bool redirect(Ia& ia, const void* owner, const Evd& evd, Evd* to) noexcept;

  // Whether the calling thread is running an agent of `ia`.
  [[nodiscard]] static bool running_in_this_thread(const Ia& ia) noexcept;

 private:
  struct Later;
  bool hand_over() noexcept;
  void forget() noexcept;  // without running

  Ia* ia_ = nullptr;
  Evd* evd_ = nullptr;
  DAT_OS_WAIT_PROXY_AGENT agent_{};  // no function: an overflow
  const void* owner_ = nullptr;
};

}  // namespace udapl::dapl
