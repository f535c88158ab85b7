// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/call.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "dapl/events/completion_stash.h"
#include "dapl/events/completion_streams.h"
#include "dapl/events/event_ring.h"
#include "dapl/events/held_completions.h"
#include "dapl/events/peer_data.h"
#include "dapl/events/upcall.h"
#include "dapl/objects/object.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

namespace udapl::dapl {

class Cno;
class EpQueues;
class WaitVisit;

// An event dispatcher: one queue for one or more event streams. Events are taken from three places,
// in this order: the ring (connection, software, async ... events, and completions that had to be
// converted to events early), the stash (completions taken off the CQ), the CQ. In a merged EVD,
// which has completions and other streams, completions of an EP that arrive before its ESTABLISHED
// are held back until that event is in the ring (DAT 2.0, events of one EVD: ESTABLISHED precedes
// the first completion of its EP).
//
// Thread safety: every function may be called by any thread, with at most the locks of an Ia or Ep
// held. Lock order: the lock of the CQ (polling, the stash, the order in which completions become
// events) before ring_lock_; notify_lock_ (waiter and CNO) before the Cno's lock, and that before
// the other two. Owned by an Ia.
class Evd : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_EVD;

  using StreamKind = CompletionStreams::Kind;
  // The result of a step of dequeue() or try_dequeue().
  enum class Dequeued { kEvent, kNothing, kSpecial };

  // Creates a queue for at least `qlen` events (> 0) of the streams in `flags`, which the caller
  // has checked. It has a CQ if `flags` contain DTO or RMR_BIND. INSUFFICIENT_RESOURCES. Throws
  // std::bad_alloc.
  static Result<Owned<Evd>> create(Ia& ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags, Cno* cno);
  // Use create(). Public for make_object.
  Evd(Ia& owner, DAT_COUNT qlen, DAT_EVD_FLAGS flags);
  ~Evd();
  Evd(const Evd&) = delete;
  Evd& operator=(const Evd&) = delete;

  // ---- streams ---------------------------------------------------------------------------------

  [[nodiscard]] DAT_EVD_FLAGS flags() const noexcept { return flags_; }
  // The CQ to which QPs report; null without DTO and RMR_BIND.
  [[nodiscard]] transport::Cq* cq() const noexcept { return cq_; }
  // Checks whether the EVD accepts the stream `flag`; INVALID_HANDLE with `subtype` if not.
  [[nodiscard]] Status check_stream(DAT_EVD_FLAGS flag, DAT_RETURN subtype) const noexcept;

  // Called when a completion stream of that mode starts or stops feeding the EVD. Each
  // attach_stream is paired with one detach_stream with the same arguments.
  void attach_stream(StreamKind kind, CompletionMode mode) noexcept UDAPL_EXCLUDES(notify_lock_);
  void detach_stream(StreamKind kind, CompletionMode mode) noexcept UDAPL_EXCLUDES(notify_lock_);
  // `change`: the number of connection streams (EPs) that start to feed the EVD; negative if they
  // stop.
  void count_connections(int change) noexcept {
    connections_.fetch_add(change, std::memory_order_relaxed);
  }

  // ---- events in -------------------------------------------------------------------------------

  // Queues an event that the core generates (connection, async, connection request), fills in its
  // evd_handle and notifies. If the queue is full, the event is lost and the async EVDs get one
  // event per episode. Completions that arrived before a connection event stay before it. The
  // Upcall runs when it is destroyed: release all locks first.
  Upcall post(const DAT_EVENT& event) noexcept UDAPL_EXCLUDES(cq_->lock, notify_lock_);
  // Like post, but if the queue is full, only sets *queued to false: for connection requests and
  // software events, which can be refused. Requests leave up to half of the queue free for the
  // connection events of the EPs that feed the EVD: those cannot be refused, while any peer can
  // send requests.
  Upcall try_post(const DAT_EVENT& event, bool* queued) noexcept
      UDAPL_EXCLUDES(cq_->lock, notify_lock_);

  // ---- for EPs ---------------------------------------------------------------------------------

  // Converts available completions to events until the ring is full, which frees their cookies.
  // Returns whether the ring has room for more. Called by posts whose cookie ring is full, by
  // dat_ep_reset, and wherever the cookies of completed work must be free.
  bool reap() noexcept UDAPL_EXCLUDES(cq_->lock);
  // Drops the completions of `ep` that have been taken off the CQ and not yet converted to events.
  // Call after its QP was destroyed or reset, and before its cookies are freed.
  void forget(const EpQueues& ep) noexcept UDAPL_EXCLUDES(cq_->lock);

  // Keeps the private data of an EP that is freed or reset, to which queued events may point.
  void keep(PeerDataList data) noexcept UDAPL_EXCLUDES(ring_lock_);

  // ---- state -----------------------------------------------------------------------------------

  [[nodiscard]] DAT_EVD_STATE state() const noexcept UDAPL_EXCLUDES(notify_lock_);
  [[nodiscard]] DAT_COUNT qlen() const noexcept { return qlen_.load(std::memory_order_relaxed); }
  [[nodiscard]] Cno* cno() const noexcept UDAPL_EXCLUDES(notify_lock_);
  [[nodiscard]] bool waited() const noexcept {
    return (dequeue_gate.load(std::memory_order_acquire) & kWaited) != 0;
  }
  // Whether the EVD is being freed, or is gone.
  [[nodiscard]] bool is_shut() const noexcept {
    return (dequeue_gate.load(std::memory_order_acquire) & kShut) != 0;
  }
  // Whether the CQ should be armed for the CNO. Called by the Cno, with its lock held.
  [[nodiscard]] bool needs_arming() const noexcept {
    return cq_ != nullptr && enabled_.load(std::memory_order_relaxed) && !waited();
  }

  // Whether there are events of which the CNO should know. Called by the Cno, with its lock held.
  [[nodiscard]] bool has_pending() noexcept UDAPL_EXCLUDES(cq_->lock) {
    return enabled_.load(std::memory_order_relaxed) && !waited() && count_events(1) != 0;
  }

  // The turn of this EVD among those of its CNO, in the order in which they notified; 0 if it has
  // not notified since it was last reported. For the Cno, with its lock held; atomic because the
  // EVD may be moving from one CNO to another.
  std::atomic<std::uint64_t> cno_turn{0};

  void set_enabled(bool enabled) noexcept UDAPL_EXCLUDES(notify_lock_);
  void set_waitable(bool waitable) noexcept UDAPL_EXCLUDES(notify_lock_);
  // `cno` may be null. If it throws std::bad_alloc, nothing has changed.
  void set_cno(Cno* cno) UDAPL_EXCLUDES(notify_lock_);
  // Implements dat_evd_resize. INVALID_STATE: there is a waiter, or more than `qlen` events are
  // queued.
  Status resize(DAT_COUNT qlen) UDAPL_EXCLUDES(cq_->lock, notify_lock_);
  // Checks whether dat_evd_free may proceed; INVALID_STATE if not.
  [[nodiscard]] Status check_free() const noexcept UDAPL_EXCLUDES(notify_lock_);
  // Detaches from the CNO, whose waiters may be released. The first step of destruction.
  void detach_from_cno() noexcept UDAPL_EXCLUDES(notify_lock_);

  // ---- events out ------------------------------------------------------------------------------

  // Fast path of dat_evd_wait, for threshold 1 and checked pointers, if an event is queued and
  // nothing forbids waiting. Returns false if it has dequeued nothing: then call the slow path,
  // evd_wait_slow_path(). `Cq`: as for dequeue().
  template <class Cq>
  [[nodiscard]] bool try_dequeue(DAT_EVENT* event, DAT_COUNT* more) noexcept
      UDAPL_EXCLUDES(cq_->lock, ring_lock_);
  // One call of dat_evd_wait: evd_wait.cpp.
  class Wait;
  // Called when the IA closes: the waiter returns ABORT, and so do later ones.
  void abort() noexcept UDAPL_EXCLUDES(notify_lock_);

  // Dequeues the oldest event, for dat_evd_dequeue on an EVD with a CQ. `Cq` is the transport's
  // final class: evd_dequeue.h.
  template <class Cq>
  [[nodiscard]] bool dequeue(DAT_EVENT* event) noexcept UDAPL_EXCLUDES(cq_->lock);
  [[nodiscard]] bool dequeue_from_ring(DAT_EVENT* event) noexcept UDAPL_EXCLUDES(ring_lock_);
  // Tells the adapter that a consumer has found the EVD empty, where the transport has no
  // Cq::progress() for it to call. Call it without a lock; the EVD may be freed meanwhile.
  void polled_in_vain() const noexcept { idle_poll_.function(idle_poll_.object); }
  // Records the reason of a BROKEN event as the thread's last cause, under the event's number.
  static void explain_broken(const DAT_EVENT& event) noexcept;
  [[nodiscard]] bool ring_empty() const noexcept { return ring_.size() == 0; }

 private:
  struct Sink final : transport::CqSink {
    explicit Sink(Evd& owner) noexcept : evd(owner) {}
    void on_notify() noexcept override;
    bool notify_waiter(WaitWord& word) noexcept override;
    void on_overflow() noexcept override;
    Evd& evd;
  };

  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  // Clang's lock analysis is off for the next three, because it does not know that `cq` is *cq_.
  // Moves `count` completions, which `cq` has polled, into the stash.
  template <class Cq>
  void stash_batch(Cq& cq, int count) noexcept
      UDAPL_REQUIRES(cq_->lock) UDAPL_NO_THREAD_SAFETY_ANALYSIS;
  // Dequeues the oldest completion of the stash, or of the CQ. kSpecial: call dequeue_oldest()
  // instead.
  template <class Cq>
  [[nodiscard]] Dequeued dequeue_next(Cq& cq, DAT_EVENT* event) noexcept
      UDAPL_REQUIRES(cq_->lock) UDAPL_NO_THREAD_SAFETY_ANALYSIS;
  // Dequeues a completion if it is the only one. kSpecial: call dequeue_counting() instead.
  template <class Cq>
  [[nodiscard]] Dequeued dequeue_only(Cq& cq, DAT_EVENT* event) noexcept
      UDAPL_REQUIRES(cq_->lock) UDAPL_NO_THREAD_SAFETY_ANALYSIS;
  // Takes the next batch off the CQ. Returns false if there is none. REQUIRES: the stash is empty.
  [[nodiscard]] bool stash_more() noexcept UDAPL_REQUIRES(cq_->lock);
  // Like dequeue(), for all kinds of EVDs and completions.
  [[nodiscard]] bool dequeue_oldest(DAT_EVENT* event) noexcept UDAPL_REQUIRES(cq_->lock);
  [[nodiscard]] bool dequeue_merged(DAT_EVENT* event) noexcept UDAPL_REQUIRES(cq_->lock);
  // Dequeues the oldest event of the stash; if there is none, the stash is empty afterwards.
  [[nodiscard]] bool dequeue_stashed(DAT_EVENT* event) noexcept UDAPL_REQUIRES(cq_->lock);
  // Converts one completion; returns false if it makes no event (a suppressed success).
  [[nodiscard]] bool convert(const transport::Completion& completion, DAT_EVENT* event) noexcept;
  [[nodiscard]] std::size_t stashed_events() const noexcept UDAPL_REQUIRES(cq_->lock);
  void refill_stash() noexcept UDAPL_REQUIRES(cq_->lock);
  // Called for merged EVDs before the ring and the stash are read: moves to the ring the held
  // completions whose ESTABLISHED has been queued, and from the stash to held_ those whose
  // ESTABLISHED has not.
  void hold_until_established() noexcept UDAPL_REQUIRES(cq_->lock);
  void reserve_early(std::size_t qlen) UDAPL_EXCLUDES(cq_->lock);
  // Whether the EP of the completion is still to post its ESTABLISHED event to this EVD.
  [[nodiscard]] bool awaits_established(const transport::Completion& completion) const noexcept;
  // Moves completions to the ring until it holds `count` events, is full, or none is left.
  void move_to_ring(std::size_t count) noexcept UDAPL_REQUIRES(cq_->lock);
  // Moves one completion, if it makes an event. REQUIRES: the ring has room.
  void move_to_ring(const transport::Completion& completion) noexcept
      UDAPL_REQUIRES(cq_->lock, ring_lock_);
  // The number of events queued now; exact up to `enough`.
  [[nodiscard]] std::size_t count_events(std::size_t enough) noexcept UDAPL_EXCLUDES(cq_->lock);
  [[nodiscard]] std::size_t count_locked(std::size_t enough) noexcept UDAPL_REQUIRES(cq_->lock);
  [[nodiscard]] bool dequeue_any(DAT_EVENT* event) noexcept UDAPL_EXCLUDES(cq_->lock);
  // `rest`: the number of events that stay queued.
  [[nodiscard]] bool dequeue_and_count(DAT_EVENT* event, std::size_t* rest) noexcept
      UDAPL_EXCLUDES(cq_->lock);
  // Queues the event that was written to the ring's next place.
  void commit_event() noexcept UDAPL_REQUIRES(ring_lock_);
  [[nodiscard]] bool has_room(const DAT_EVENT& event) const noexcept UDAPL_REQUIRES(ring_lock_);
  enum class Push { kQueued, kRefused, kLost, kLostAgain };
  enum class IfFull { kRefuse, kLose };
  [[nodiscard]] Push push(const DAT_EVENT& event, IfFull if_full) noexcept
      UDAPL_EXCLUDES(ring_lock_);
  // An upper bound of the events queued now: completions that make no event may be counted.
  [[nodiscard]] std::size_t count_all() noexcept UDAPL_EXCLUDES(cq_->lock);

  // Called after a notification event was queued: wakes the waiter or triggers the CNO.
  Upcall notify() noexcept UDAPL_EXCLUDES(notify_lock_);
  void arm_for_cno() noexcept UDAPL_REQUIRES(notify_lock_);
  [[nodiscard]] Status claim_waiter(std::size_t threshold) noexcept UDAPL_EXCLUDES(notify_lock_);
  // The number of events queued now, as far as it fits into the type.
  [[nodiscard]] DAT_COUNT count_rest() noexcept UDAPL_EXCLUDES(cq_->lock);
  [[nodiscard]] bool dequeue_counting(DAT_EVENT* event, DAT_COUNT* more) noexcept
      UDAPL_EXCLUDES(cq_->lock);
  void update_wait_gate() noexcept UDAPL_REQUIRES(notify_lock_);
  // Blocks until `threshold` events are queued; otherwise returns why the wait has ended.
  [[nodiscard]] DAT_RETURN wait_for(std::size_t threshold, const Deadline& deadline,
                                    const WaitVisit& visit) noexcept
      UDAPL_EXCLUDES(cq_->lock, notify_lock_);
  // Sleeps in Cq::block() if that is possible, otherwise in Adapter::block().
  [[nodiscard]] WaitResult block(std::uint32_t seen, const Deadline& deadline) noexcept;
  // Why the waiter has to return; SUCCESS if it need not.
  [[nodiscard]] DAT_RETURN interruption() const noexcept UDAPL_EXCLUDES(notify_lock_);
  // The calling thread is no longer the waiter; it is counted in leaving_ as long as it still uses
  // the EVD. If the wait has failed with `code`, passes a notification that the waiter has not
  // acted upon to the CNO.
  Upcall release_waiter(DAT_RETURN code) noexcept UDAPL_EXCLUDES(notify_lock_);

  // Bits of dequeue_gate: why a dequeue has to check more than the completions.
  enum Attention : unsigned { kWaited = 2, kInRing = 4, kNoCq = 8, kMerged = 16 };
  static_assert((kShut & (kWaited | kInRing | kNoCq | kMerged)) == 0);

  const DAT_EVD_FLAGS flags_;
  const bool merged_;
  std::atomic<DAT_COUNT> qlen_;

  CompletionStash stash_ UDAPL_GUARDED_BY(cq_->lock);
  // Used by a merged EVD. Has room for the whole CQ.
  HeldCompletions held_ UDAPL_GUARDED_BY(cq_->lock);

  SpinLock ring_lock_;
  EventRing ring_;  // its size may be read without the lock
  KeptPeerData kept_ UDAPL_GUARDED_BY(ring_lock_);
  bool overflowing_ UDAPL_GUARDED_BY(ring_lock_) = false;  // this episode has been reported
  std::atomic<int> connections_{0};  // EPs whose connection events are queued here

  mutable Mutex notify_lock_;
  Use<Cno> cno_ UDAPL_GUARDED_BY(notify_lock_);
  CompletionStreams streams_ UDAPL_GUARDED_BY(notify_lock_);
  bool waitable_ UDAPL_GUARDED_BY(notify_lock_) = true;
  bool must_return_ UDAPL_GUARDED_BY(notify_lock_) = false;  // the waiter has to return
  bool aborted_ UDAPL_GUARDED_BY(notify_lock_) = false;
  bool lost_completions_ UDAPL_GUARDED_BY(notify_lock_) = false;  // the CQ overflowed
  std::atomic<bool> enabled_{true};                               // written under notify_lock_
  // True if unwaitable, aborted, or completions were lost. Written under notify_lock_.
  std::atomic<bool> wait_refused_{false};
  std::atomic<int> leaving_{0};        // threads that are no longer the waiter, but use the EVD
  std::atomic<bool> notified_{false};  // a notification arrived since the waiter last checked
  WaitWord word_;                      // the waiter sleeps on it

  const Call idle_poll_;  // Adapter::idle_poll()
  Sink sink_;
  // Both are null without a CQ. Unlike the owner, cq_ is still valid for a thread that polls while
  // the EVD is being freed.
  transport::Cq* cq_ = nullptr;
  std::unique_ptr<transport::Cq> owned_cq_;  // last: its destructor waits for a running sink call
};

}  // namespace udapl::dapl
