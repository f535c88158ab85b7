// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "dapl/event_ring.h"
#include "dapl/object.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"
#include "dapl/upcall.h"

#include <atomic>
#include <limits>
#include <memory>
#include <vector>

namespace udapl::dapl {

class Cno;
class Ep;

// An event dispatcher: one queue for one or more event streams. Events come from three places,
// served in this order: the ring (connection, software, async ... events, and completions that had
// to be turned into events early), the stash (completions taken off the CQ), the CQ. If one EVD has
// both streams, what an EP receives before its ESTABLISHED is set aside until that is in the ring
// (DAT 2.0, events of one EVD: ESTABLISHED precedes the first completion of its EP).
//
// Thread safety: every function may be called by any thread, with the locks of an Ia or Ep held at
// most. Locks: poll_lock_ (stash, polling the CQ) before ring_lock_; notify_lock_ (who is to be
// told) before the Cno's; never notify_lock_ together with the other two. Owned by an Ia.
class Evd : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_EVD;
  static constexpr int kStash = 16;

  enum class StreamKind { kRecv, kRequest };

  // A queue for at least `qlen` events (> 0) of the streams in `flags`, checked by the caller. Has
  // a CQ if `flags` contain DTO or RMR_BIND. INSUFFICIENT_RESOURCES. Throws std::bad_alloc.
  static Result<Owned<Evd>> create(Ia& ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags, Cno* cno);
  // Use create(). Public for make_object.
  Evd(Ia& owner, DAT_COUNT qlen, DAT_EVD_FLAGS flags);
  ~Evd();
  Evd(const Evd&) = delete;
  Evd& operator=(const Evd&) = delete;

  // ---- streams ---------------------------------------------------------------------------------

  [[nodiscard]] DAT_EVD_FLAGS flags() const noexcept { return flags_; }
  // Where QPs report; null without DTO and RMR_BIND.
  [[nodiscard]] transport::Cq* cq() const noexcept { return cq_.get(); }
  // May the EVD be fed with the stream `flag`? INVALID_HANDLE with `subtype` if not.
  [[nodiscard]] Status check_stream(DAT_EVD_FLAGS flag, DAT_RETURN subtype) const noexcept;

  // A completion stream with the EP attribute `mode` begins to feed the EVD. INVALID_PARAMETER when
  // the mode does not fit the other streams (udapl-semantics 4.6). Each success is paired with one
  // detach_stream of the same arguments.
  Status attach_stream(StreamKind kind, DAT_COMPLETION_FLAGS mode) noexcept
      UDAPL_EXCLUDES(notify_lock_);
  void detach_stream(StreamKind kind, DAT_COMPLETION_FLAGS mode) noexcept
      UDAPL_EXCLUDES(notify_lock_);

  // ---- events in -------------------------------------------------------------------------------

  // Queues an event of the core's own (connection, async, connection request) and notifies;
  // evd_handle is filled in. When the queue is full the event is lost and the async EVDs are told
  // once per episode. Completions that came before a connection event stay before it. The Upcall
  // runs when it is destroyed: not while the caller holds a lock.
  Upcall post(const DAT_EVENT& event) noexcept UDAPL_EXCLUDES(poll_lock_, notify_lock_);
  // As post, but when the queue is full the event is not queued, nobody is told and *queued is
  // false: connection requests and software events, whose origin can be refused.
  Upcall try_post(const DAT_EVENT& event, bool* queued) noexcept
      UDAPL_EXCLUDES(poll_lock_, notify_lock_);

  // ---- for EPs ---------------------------------------------------------------------------------

  // Turns all completions that are there into events, as far as there is room, which frees their
  // cookies. True: there is room for more. Posters call it when their cookie ring is full, and
  // dat_ep_reset before it resets.
  bool reap() noexcept UDAPL_EXCLUDES(poll_lock_);
  // Drops the completions of `ep` that have been taken off the CQ and are no events yet. Call after
  // its QP was destroyed or reset and before its cookies go.
  void forget(const Ep& ep) noexcept UDAPL_EXCLUDES(poll_lock_);

  // ---- state -----------------------------------------------------------------------------------

  [[nodiscard]] DAT_EVD_STATE state() const noexcept UDAPL_EXCLUDES(notify_lock_);
  [[nodiscard]] DAT_COUNT qlen() const noexcept { return qlen_.load(std::memory_order_relaxed); }
  [[nodiscard]] Cno* cno() const noexcept UDAPL_EXCLUDES(notify_lock_);
  [[nodiscard]] bool waited() const noexcept { return (poll_gate.bits() & kWaited) != 0; }
  // Would the CNO want to hear of completions? Asked by the Cno, with its lock held.
  [[nodiscard]] bool wants_arming() const noexcept {
    return cq_ != nullptr && enabled_.load(std::memory_order_relaxed) && !waited();
  }

  void set_enabled(bool enabled) noexcept UDAPL_EXCLUDES(notify_lock_);
  void set_waitable(bool waitable) noexcept UDAPL_EXCLUDES(notify_lock_);
  // `cno` null: none. Throws std::bad_alloc, then nothing has changed.
  void set_cno(Cno* cno) UDAPL_EXCLUDES(notify_lock_);
  // dat_evd_resize. INVALID_STATE: a waiter, or more than `qlen` events are queued.
  Status resize(DAT_COUNT qlen) UDAPL_EXCLUDES(poll_lock_, notify_lock_);
  // dat_evd_free may go on; INVALID_STATE if not.
  [[nodiscard]] Status check_free() const noexcept UDAPL_EXCLUDES(notify_lock_);
  // Leaves the CNO as a freed EVD does (its waiters may be released). The first step of the end.
  Upcall leave_cno() noexcept UDAPL_EXCLUDES(notify_lock_);

  // ---- events out ------------------------------------------------------------------------------

  // dat_evd_wait with checked pointers. Blocks.
  [[nodiscard]] DAT_RETURN wait(DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT* event,
                                DAT_COUNT* more) noexcept UDAPL_EXCLUDES(poll_lock_, notify_lock_);
  // The IA closes: a waiter returns ABORT, and so do later ones.
  void abort() noexcept UDAPL_EXCLUDES(notify_lock_);

  // Is a look at the completions all that dat_evd_dequeue has to do? No waiter, nothing in the
  // ring, a CQ, and no other streams.
  [[nodiscard]] bool plain() const noexcept { return poll_gate.open(); }
  // The oldest completion in stash and CQ that makes an event. Here and below `Cq` is the
  // transport's final class: datapath_evd.h.
  template <class Cq>
  [[nodiscard]] bool take_completion(DAT_EVENT* event) noexcept UDAPL_REQUIRES(poll_lock_);
  // By the consumer who is announced at the gate: how many completions have come (Cq::fetch);
  // puts them into the stash, which is empty, and gives the oldest one that makes an event.
  template <class Cq>
  [[nodiscard]] int fetch() noexcept UDAPL_REQUIRES(poll_lock_);
  template <class Cq>
  [[nodiscard]] bool take_fetched(int count, DAT_EVENT* event) noexcept UDAPL_REQUIRES(poll_lock_);
  // The oldest event of the stash, which is used up if there is none.
  [[nodiscard]] bool take_stash(DAT_EVENT* event) noexcept UDAPL_REQUIRES(poll_lock_);
  // The next event, if that is the success of a transfer and its completion is in the stash.
  [[nodiscard]] bool take_stashed(DAT_EVENT* event) noexcept UDAPL_REQUIRES(poll_lock_);
  // The oldest event of all: the locked part of dat_evd_dequeue.
  template <class Cq>
  [[nodiscard]] bool take(DAT_EVENT* event) noexcept UDAPL_REQUIRES(poll_lock_);
  // take() of a merged EVD.
  [[nodiscard]] bool take_merged(DAT_EVENT* event) noexcept UDAPL_REQUIRES(poll_lock_);
  [[nodiscard]] bool take_from_ring(DAT_EVENT* event) noexcept UDAPL_EXCLUDES(ring_lock_);
  [[nodiscard]] bool ring_empty() const noexcept { return ring_.size() == 0; }
  // Completions and other streams: posting may then move completions, so pollers always lock.
  [[nodiscard]] bool merged() const noexcept { return merged_; }
  SpinLock& poll_lock() noexcept UDAPL_TSA(lock_returned(poll_lock_)) { return poll_lock_; }

 private:
  struct Sink final : transport::CqSink {
    explicit Sink(Evd& owner) noexcept : evd(owner) {}
    void on_notify() noexcept override;
    void on_overflow() noexcept override;
    [[nodiscard]] transport::PollGate* poll_gate() noexcept override { return &evd.poll_gate; }
    Evd& evd;
  };
  struct Modes {  // streams attached, by mode
    int threshold = 0;
    int unsignalled = 0;
    int solicited = 0;
  };

  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  // The oldest completion leaves the stash, which is not empty.
  [[nodiscard]] const transport::Completion& unstash() noexcept UDAPL_REQUIRES(poll_lock_) {
    --stashed();
    return *stash_begin_++;
  }
  void restash(int count) noexcept UDAPL_REQUIRES(poll_lock_) {
    stash_begin_ = stash_;
    stashed() = count;
  }
  // Completions in the stash, from stash_begin_ on.
  [[nodiscard]] std::int32_t& stashed() noexcept UDAPL_REQUIRES(poll_lock_) {
    return poll_gate.stock();
  }
  [[nodiscard]] std::int32_t stashed() const noexcept UDAPL_REQUIRES(poll_lock_) {
    return poll_gate.stock();
  }
  // One completion as an event; false if it makes none (a suppressed success).
  [[nodiscard]] bool convert(const transport::Completion& completion, DAT_EVENT* event) noexcept;
  [[nodiscard]] std::size_t stashed_events() const noexcept UDAPL_REQUIRES(poll_lock_);
  void refill_stash() noexcept UDAPL_REQUIRES(poll_lock_);
  // Of a merged EVD, before the ring and the stash are looked at: what was early and is not any
  // more goes to the ring, after its ESTABLISHED, and what is early leaves the stash.
  void set_early_aside() noexcept UDAPL_REQUIRES(poll_lock_);
  void release_early() noexcept UDAPL_REQUIRES(poll_lock_);
  void reserve_early(std::size_t qlen) UDAPL_EXCLUDES(poll_lock_);
  [[nodiscard]] bool is_early(const transport::Completion& completion) const noexcept
      UDAPL_REQUIRES(poll_lock_);
  // Moves completions to the ring until it holds `count` events, it is full or none is left.
  void move_to_ring(std::size_t count) noexcept UDAPL_REQUIRES(poll_lock_);
  // Events queued now; exact up to `enough`.
  [[nodiscard]] std::size_t count_events(std::size_t enough) noexcept UDAPL_EXCLUDES(poll_lock_);
  [[nodiscard]] bool take_any(DAT_EVENT* event) noexcept UDAPL_EXCLUDES(poll_lock_);
  void enqueue(const DAT_EVENT& event) noexcept UDAPL_REQUIRES(ring_lock_);
  enum class Push { kQueued, kRefused, kLost, kLostAgain };
  [[nodiscard]] Push push(const DAT_EVENT& event, bool may_refuse) noexcept
      UDAPL_EXCLUDES(ring_lock_);
  // At least the events queued now; completions that make none may be counted.
  [[nodiscard]] std::size_t count_all() noexcept UDAPL_EXCLUDES(poll_lock_);
  [[nodiscard]] DAT_EVD_STATE configuration() const noexcept UDAPL_REQUIRES(notify_lock_);

  // A notification event was queued: wakes the waiter or triggers the CNO.
  Upcall notify() noexcept UDAPL_EXCLUDES(notify_lock_);
  void arm_for_cno() noexcept UDAPL_REQUIRES(notify_lock_);
  [[nodiscard]] Status claim_waiter(std::size_t threshold) noexcept UDAPL_EXCLUDES(notify_lock_);
  // Blocks until `threshold` events are there; other codes: why not.
  [[nodiscard]] DAT_RETURN wait_for(std::size_t threshold, const Deadline& deadline) noexcept
      UDAPL_EXCLUDES(poll_lock_, notify_lock_);
  // Why the waiter has to leave; SUCCESS if it need not.
  [[nodiscard]] DAT_RETURN interruption() const noexcept UDAPL_EXCLUDES(notify_lock_);
  // The waiter leaves. A notification that it did not act upon goes to the CNO, if `pass_on`.
  Upcall release_waiter(bool pass_on) noexcept UDAPL_EXCLUDES(notify_lock_);

  // Bits of poll_gate: why a dequeue has to look at more than the completions.
  enum Attention : unsigned { kWaited = 2, kInRing = 4, kNoCq = 8, kMerged = 16 };
  static_assert((kShut & (kWaited | kInRing | kNoCq | kMerged)) == 0);

  const DAT_EVD_FLAGS flags_;
  const bool merged_;
  std::atomic<DAT_COUNT> qlen_;

  SpinLock poll_lock_;
  transport::Completion* stash_begin_ UDAPL_GUARDED_BY(poll_lock_) = stash_;
  transport::Completion stash_[kStash] UDAPL_GUARDED_BY(poll_lock_);
  // Completions of EPs whose ESTABLISHED is not queued yet. Has room for all of the CQ.
  std::vector<transport::Completion> early_ UDAPL_GUARDED_BY(poll_lock_);

  SpinLock ring_lock_ UDAPL_ACQUIRED_AFTER(poll_lock_);
  EventRing ring_;                                         // its size may be read without the lock
  bool overflowing_ UDAPL_GUARDED_BY(ring_lock_) = false;  // an episode has been reported

  mutable Mutex notify_lock_;
  Use<Cno> cno_ UDAPL_GUARDED_BY(notify_lock_);
  Modes recv_modes_ UDAPL_GUARDED_BY(notify_lock_);
  Modes request_modes_ UDAPL_GUARDED_BY(notify_lock_);
  bool waitable_ UDAPL_GUARDED_BY(notify_lock_) = true;
  bool kicked_ UDAPL_GUARDED_BY(notify_lock_) = false;  // the waiter was made to leave
  bool aborted_ UDAPL_GUARDED_BY(notify_lock_) = false;
  bool lost_completions_ UDAPL_GUARDED_BY(notify_lock_) = false;  // the CQ overflowed
  std::atomic<bool> enabled_{true};                               // written under notify_lock_
  std::atomic<bool> notified_{false};  // a notification came since the waiter looked
  WaitWord word_;                      // the waiter sleeps on it

  Sink sink_;
  std::unique_ptr<transport::Cq> cq_;  // last: its end waits for a running sink call
};

}  // namespace udapl::dapl
