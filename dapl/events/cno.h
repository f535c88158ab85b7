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
// dat_cno_wait reports the EVDs in the order in which they notified. The CNO stays triggered for
// waiters as long as an EVD that has notified, and was not reported since, has events, because many
// programs look only at the EVD that the wait names. dat_cno_trigger names the latest EVD and ends
// the trigger.
//
// The CQs of its EVDs are armed while it is not triggered. While it is triggered, further
// notifications change nothing, so the CQs stay disarmed: consuming the trigger arms them again.
//
// Thread-safe. Lock order: the notify_lock_ of an Evd before lock_. While lock_ is held, only the
// locks of the queues (Cq::lock and Evd::ring_lock_), of Ia::agents() and of the transport may be
// acquired. Owned by an Ia.
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
  // For dat_evd_modify_cno. A trigger that the EVD has caused stays.
  void detach(Evd& evd) noexcept UDAPL_EXCLUDES(lock_);
  // Detaches an EVD that is being freed. If it was the last, waiters return with a null EVD. The
  // agent is not called: programs free the data it uses before they free the EVDs.
  void detach_freed(Evd& evd) noexcept UDAPL_EXCLUDES(lock_);
  // Called when an EVD that may once have been attached is being freed and can trigger no more: a
  // pending trigger or call of the agent names another EVD that has events, or none.
  void forget(const Evd& evd) noexcept UDAPL_EXCLUDES(lock_);
  // Handles a notification of `evd`: sets `wakeup` to that of a waiter, or returns an Upcall that
  // calls the agent.
  Upcall trigger(Evd& evd, WaitWord::Wakeup& wakeup) noexcept UDAPL_EXCLUDES(lock_);

  // The descriptor for which the CQs of the attached EVDs are created, or null.
  [[nodiscard]] transport::EventDescriptor* shown() const noexcept { return shown_.get(); }
  // Called when an EVD is created for this CNO: returns the place for which its CQ is to be
  // created, or null. Throws std::bad_alloc.
  [[nodiscard]] transport::WaitPlace* place() UDAPL_EXCLUDES(lock_);
  // Arms the CQ of an attached EVD. If only waiting threads, or only a consumer that sleeps on the
  // descriptor, need the notification, the CQ is armed just for them. set_agent(), and a waiter of
  // a CNO with a descriptor, therefore arm all CQs again.
  void arm(transport::Cq& cq) const noexcept UDAPL_EXCLUDES(lock_);
  // Makes the descriptor no longer show the events of this CQ, because the EVD has a waiter, is
  // disabled or has been detached. Call it after Evd::needs_arming() has become false, or after
  // detach(): otherwise the CQ could be armed for the descriptor again.
  void hide(transport::Cq& cq) const noexcept UDAPL_EXCLUDES(lock_);

  // ---- for the consumer ------------------------------------------------------------------------

  // One call of dat_cno_wait: cno.cpp.
  class Wait;
  // Consumes the trigger and returns the EVD that triggered last; null if there is no trigger.
  [[nodiscard]] Evd* consume() noexcept UDAPL_EXCLUDES(lock_);
  Status set_agent(const DAT_OS_WAIT_PROXY_AGENT& agent) noexcept UDAPL_EXCLUDES(lock_);
  // The descriptor that the consumer polls; -1: none.
  [[nodiscard]] int descriptor() const noexcept {
    return shown_ != nullptr ? shown_->get() : fd_.get();
  }
  void query(DAT_CNO_PARAM* param) const noexcept UDAPL_EXCLUDES(lock_);
  // Whether dat_cno_free may proceed; INVALID_STATE if not.
  [[nodiscard]] Status check_free() const noexcept UDAPL_EXCLUDES(lock_);
  // For closing the IA: waiters return with a null EVD, and no more triggers are accepted.
  void abort() noexcept UDAPL_EXCLUDES(lock_);
  // After abort(): if an agent is installed, calls it with a null EVD, once.
  Upcall last_call() noexcept UDAPL_EXCLUDES(lock_);

 private:
  // Clears the trigger and arms the CQs; returns the EVD that triggered last. If that EVD was freed
  // meanwhile, returns another one that has events, or null.
  Evd* consume_trigger() noexcept UDAPL_REQUIRES(lock_);
  // For a waiter: returns the EVD whose turn it is; if none has a turn, does the same as
  // consume_trigger(). The CNO stays triggered if a further EVD has a turn; `wakeup` is then that
  // of another waiter.
  Evd* consume_turn(WaitWord::Wakeup& wakeup) noexcept UDAPL_REQUIRES(lock_);
  // Of the EVDs that have notified, were not reported since and have events: the one that notified
  // first, or null. EVDs that no longer have events lose their turns.
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
  // Sleeps in the place, if there is one, otherwise in Adapter::block().
  [[nodiscard]] WaitResult block(std::uint32_t seen, const Deadline& deadline) noexcept
      UDAPL_EXCLUDES(lock_);

  mutable Mutex lock_;
  std::vector<Evd*> evds_ UDAPL_GUARDED_BY(lock_);
  DAT_OS_WAIT_PROXY_AGENT agent_ UDAPL_GUARDED_BY(lock_);
  DAT_OS_WAIT_PROXY_AGENT called_ UDAPL_GUARDED_BY(lock_){};  // the agent of the latest Upcall
  const Fd fd_;
  const std::unique_ptr<transport::EventDescriptor> shown_;  // contains fd_
  // Where the only waiter sleeps. Created together with a CQ, for an EVD that is created for the
  // CNO while no attached EVD has a CQ; not if the CNO has a descriptor, an agent or several
  // waiters then. A second waiter gives it up for good.
  std::unique_ptr<transport::WaitPlace> place_ UDAPL_GUARDED_BY(lock_);
  int takers_ UDAPL_GUARDED_BY(lock_) = 0;          // threads in consume(), if there is `shown_`
  bool signalled_ UDAPL_GUARDED_BY(lock_) = false;  // fd_ is readable
  std::atomic<bool> has_agent_;  // agent_'s function is not null; written under lock_
  bool triggered_ UDAPL_GUARDED_BY(lock_) = false;
  bool again_ UDAPL_GUARDED_BY(lock_) = false;  // triggered only because EVDs still have turns
  std::uint64_t turns_ UDAPL_GUARDED_BY(lock_) = 0;
  bool aborted_ UDAPL_GUARDED_BY(lock_) = false;
  bool owes_last_call_ UDAPL_GUARDED_BY(lock_) = false;
  Evd* latest_ UDAPL_GUARDED_BY(lock_) = nullptr;  // triggered last; never dereferenced
  int waiters_ UDAPL_GUARDED_BY(lock_) = 0;
  unsigned releases_ UDAPL_GUARDED_BY(lock_) = 0;  // how often all waiters were released
  WaitWord word_;
};

}  // namespace udapl::dapl
