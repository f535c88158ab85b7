// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/wait_word.h"
#include "dapl/events/upcall.h"
#include "dapl/objects/object.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/event_descriptor.h"
#include "dapl/transport/wait_place.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl::dapl {

class Evd;

// A consumer notification object: the wait point of several EVDs. Triggered by a notification of an
// enabled EVD that has no waiter; the trigger stays until a waiter, dat_cno_trigger or a proxy
// agent consumes it.
//
// Waiters are told of the EVDs in the order of their notifications. As long as an EVD that has
// notified, and was not reported, has events, the CNO stays triggered for waiters: many programs
// only look at the EVD that the wait names. Not so for dat_cno_trigger, which names the latest.
//
// The CQs of its EVDs are armed while it is not triggered. While it is triggered, further
// notifications change nothing, so the CQs stay disarmed: consuming the trigger arms them again.
//
// Thread-safe; its lock comes after the notify_lock_ of an Evd. Only those of the queues (the CQ's
// and ring_lock_), of Ia::agents() and of the transport come after it. Owned
// by an Ia.
class Cno : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_CNO;

  // `fd`: an eventfd that is readable exactly while triggered, or none. `shown`: the descriptor
  // that the consumer gets in its place, or none.
  Cno(Ia& owner, const DAT_OS_WAIT_PROXY_AGENT& agent, Fd fd,
      std::unique_ptr<transport::EventDescriptor> shown) noexcept;
  ~Cno();
  Cno(const Cno&) = delete;
  Cno& operator=(const Cno&) = delete;

  // ---- for Evd ---------------------------------------------------------------------------------

  // Throws std::bad_alloc.
  void attach(Evd& evd) UDAPL_EXCLUDES(lock_);
  // For dat_evd_modify_cno. What the EVD has triggered stays.
  void detach(Evd& evd) noexcept UDAPL_EXCLUDES(lock_);
  // Detaches an EVD that is being freed. If it was the last, waiters return with a null EVD. The
  // agent is not called: programs free the data it uses before they free the EVDs.
  void detach_freed(Evd& evd) noexcept UDAPL_EXCLUDES(lock_);
  // An EVD that may have been attached is being freed and triggers no more: waiters and the agent
  // are told of another EVD that has events, or of none.
  void forget(const Evd& evd) noexcept UDAPL_EXCLUDES(lock_);
  // Handles a notification of `evd`: sets `wakeup` to that of a waiter, or returns an Upcall that
  // calls the agent.
  Upcall trigger(Evd& evd, WaitWord::Wakeup& wakeup) noexcept UDAPL_EXCLUDES(lock_);

  // The descriptor for which the CQs of its EVDs are made, or null.
  [[nodiscard]] transport::EventDescriptor* shown() const noexcept { return shown_.get(); }
  // The place for which the CQ of an EVD that is being created for this CNO is to be made, or null.
  // Throws std::bad_alloc.
  [[nodiscard]] transport::WaitPlace* place() UDAPL_EXCLUDES(lock_);
  // Arms the CQ of an attached EVD: only for threads that wait, or for a consumer that sleeps on
  // the descriptor, if nothing else is to be told. set_agent() and waiters arm all CQs again.
  void arm(transport::Cq& cq) const noexcept UDAPL_EXCLUDES(lock_);
  // The CNO is no longer told of the events of this CQ, or not alone: then the descriptor, which
  // shows only what the CNO is told of, must not show them. Called after needs_arming() has become
  // false.
  void hide(transport::Cq& cq) const noexcept UDAPL_EXCLUDES(lock_);

  // ---- for the consumer ------------------------------------------------------------------------

  // One call of dat_cno_wait: cno.cpp.
  class Wait;
  // The latest trigger, which it consumes; null if there is none.
  [[nodiscard]] Evd* consume() noexcept UDAPL_EXCLUDES(lock_);
  Status set_agent(const DAT_OS_WAIT_PROXY_AGENT& agent) noexcept UDAPL_EXCLUDES(lock_);
  // What the consumer polls; -1: nothing.
  [[nodiscard]] int descriptor() const noexcept {
    return shown_ != nullptr ? shown_->get() : fd_.get();
  }
  void query(DAT_CNO_PARAM* param) const noexcept UDAPL_EXCLUDES(lock_);
  // Whether dat_cno_free may proceed; INVALID_STATE if not.
  [[nodiscard]] Status check_free() const noexcept UDAPL_EXCLUDES(lock_);
  // For closing the IA: waiters return with a null EVD, and no more triggers are accepted.
  void abort() noexcept UDAPL_EXCLUDES(lock_);
  // After abort(): calls the agent with a null EVD, if there is one and it has not been called so.
  Upcall last_call() noexcept UDAPL_EXCLUDES(lock_);

 private:
  // Clears the trigger and arms the EVDs; returns the latest trigger. If that was freed meanwhile,
  // another EVD that has events, or null.
  Evd* consume_trigger() noexcept UDAPL_REQUIRES(lock_);
  // For a waiter: returns the EVD whose turn it is, otherwise the same as consume_trigger(). Stays
  // triggered if another one has a turn; `wakeup` is then that of another waiter.
  Evd* consume_turn(WaitWord::Wakeup& wakeup) noexcept UDAPL_REQUIRES(lock_);
  // The EVD that has notified first among those that were not reported and have events, or null.
  // Those that have no events any more lose their turns.
  [[nodiscard]] Evd* next_in_turn() noexcept UDAPL_REQUIRES(lock_);
  void set_triggered(bool triggered) noexcept UDAPL_REQUIRES(lock_);
  void put_agent(const DAT_OS_WAIT_PROXY_AGENT& agent) noexcept UDAPL_REQUIRES(lock_);
  void arm_all() noexcept UDAPL_REQUIRES(lock_);
  void arm_locked(transport::Cq& cq) const noexcept UDAPL_REQUIRES(lock_);
  // An attached EVD that has events for the CNO, or null.
  [[nodiscard]] Evd* find_pending() noexcept UDAPL_REQUIRES(lock_);
  // The steps that detach_freed() and forget() share.
  void replace(const Evd& evd) noexcept UDAPL_REQUIRES(lock_);
  void remove(Evd& evd) noexcept UDAPL_REQUIRES(lock_);
  void release_waiters() noexcept UDAPL_REQUIRES(lock_);
  // Registers a waiter; returns `releases_`, which the waiter passes to take().
  [[nodiscard]] unsigned enter() noexcept UDAPL_EXCLUDES(lock_);
  // If the waiter may return SUCCESS, sets *evd and returns true.
  [[nodiscard]] bool take(unsigned releases, DAT_EVD_HANDLE* evd) noexcept UDAPL_EXCLUDES(lock_);
  void leave() noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] transport::WaitPlace* current_place() const noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return place_.get();
  }
  // Sleeps until the word differs from `seen`: as Adapter::block().
  [[nodiscard]] WaitResult block(std::uint32_t seen, const Deadline& deadline) noexcept
      UDAPL_EXCLUDES(lock_);

  mutable Mutex lock_;
  std::vector<Evd*> evds_ UDAPL_GUARDED_BY(lock_);
  DAT_OS_WAIT_PROXY_AGENT agent_ UDAPL_GUARDED_BY(lock_);
  DAT_OS_WAIT_PROXY_AGENT called_ UDAPL_GUARDED_BY(lock_){};  // the agent of the latest Upcall
  const Fd fd_;
  const std::unique_ptr<transport::EventDescriptor> shown_;  // contains fd_
  // Where the only waiter sleeps, if the CNO had neither descriptor nor agent nor EVD with a CQ
  // when such an EVD was created for it. Given up for ever if there are several waiters.
  std::unique_ptr<transport::WaitPlace> place_ UDAPL_GUARDED_BY(lock_);
  int takers_ UDAPL_GUARDED_BY(lock_) = 0;          // threads that are about to consume the trigger
  bool signalled_ UDAPL_GUARDED_BY(lock_) = false;  // fd_ is readable
  std::atomic<bool> has_agent_;  // agent_'s function is not null; written under lock_
  bool triggered_ UDAPL_GUARDED_BY(lock_) = false;
  bool again_ UDAPL_GUARDED_BY(lock_) = false;  // triggered by nothing but turns that are left
  std::uint64_t turns_ UDAPL_GUARDED_BY(lock_) = 0;
  bool aborted_ UDAPL_GUARDED_BY(lock_) = false;
  bool owes_last_call_ UDAPL_GUARDED_BY(lock_) = false;
  Evd* latest_ UDAPL_GUARDED_BY(lock_) = nullptr;  // a hint; never followed
  int waiters_ UDAPL_GUARDED_BY(lock_) = 0;
  unsigned releases_ UDAPL_GUARDED_BY(lock_) = 0;  // how often all waiters were released
  WaitWord word_;
};

}  // namespace udapl::dapl
