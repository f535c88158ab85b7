// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"
#include "providers/verbs/qp_map.h"
#include "providers/verbs/work_tag.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace udapl::verbs {

class Adapter;
class CqChannel;
class Srq;

// A completion queue on a verbs CQ. Thread-safe as described at transport::Cq. Owned by an EVD.
//
// A poll is one ibv_poll_cq and one pass over its results. The wr_id of an ordinary completion
// identifies its request; for other completions the QP number is looked up.
//
// Three functions take completions off the verbs CQ without returning them. They keep them for the
// next poll in `held_`, which has room for a full CQ:
//  - size(), because verbs does not tell how many completions are queued;
//  - the scans of the IdleCqScanner;
//  - found_notification(), when an armed CQ fires that also gets quiet completions, which the
//    device cannot tell from notifications.
//
// The verbs CQ may still contain completions of a QP that has been destroyed. These are dropped:
// until the CQ has once been seen empty, the QP number of every completion is looked up.
class Cq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = false;  // for dapl::CompletionQueue
  static constexpr int kBatch = 16;               // most completions that one poll returns

  enum class Role { kReceive, kRequest };

  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc. REQUIRES: depth > 0.
  static Result<std::unique_ptr<transport::Cq>> create(Adapter& adapter,
                                                       const std::shared_ptr<CqChannel>& channel,
                                                       int depth, transport::CqSink& sink);
  Cq(Adapter& adapter, std::shared_ptr<CqChannel> channel,
     transport::CqSink& sink);  // use create()
  ~Cq() override;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  int poll(transport::Completion* out, int max) noexcept override UDAPL_REQUIRES(lock);
  // Implement dapl::PollsBatches; see there.
  [[nodiscard]] bool polls_batches() const noexcept UDAPL_REQUIRES(lock) { return !uses_held_; }
  [[nodiscard]] int poll_batch() noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] bool take_only(transport::Completion& only) noexcept UDAPL_REQUIRES(lock);
  int convert_batch(int count, transport::Completion* out) noexcept UDAPL_REQUIRES(lock);
  bool progress() noexcept override { return false; }
  void arm() noexcept override UDAPL_EXCLUDES(lock);
  void arm_for_waiters() noexcept override UDAPL_EXCLUDES(lock);
  void arm_for_descriptor(transport::EventDescriptor& descriptor) noexcept override
      UDAPL_EXCLUDES(lock);
  void arm_for_place(transport::WaitPlace& place) noexcept override UDAPL_EXCLUDES(lock);
  void arm_to_block() noexcept override UDAPL_EXCLUDES(lock);
  std::optional<WaitResult> block(WaitWord& word, std::uint32_t seen,
                                  const Deadline& deadline) noexcept override UDAPL_EXCLUDES(lock);
  [[nodiscard]] int size() noexcept override UDAPL_REQUIRES(lock);
  // MODEL_NOT_SUPPORTED: the device cannot make it larger. Throws std::bad_alloc.
  Status resize(int depth) override UDAPL_EXCLUDES(qps_lock_);
  // The depth that was requested. The verbs CQ has spare entries for internal requests, and devices
  // round up.
  [[nodiscard]] int depth() const noexcept override {
    return depth_.load(std::memory_order_relaxed);
  }

  // ---- for Queue -------------------------------------------------------------------------------
  [[nodiscard]] ibv_cq* get() const noexcept { return cq_; }
  // Connects a QP to this CQ. Called once for each role that the QP has, after ibv_create_qp and
  // before its first post; detach is called after ibv_destroy_qp. Once detach has returned, no
  // completion of the QP is handed out, and no poll calls the QP. Locks of the Qp may be held.
  // attach throws std::bad_alloc. `srq`: the SRQ of the QP, null if it has its own receive queue.
  void attach(Queue& queue, std::uint32_t number, void* context, Role role, bool solicited_only,
              Srq* srq = nullptr) UDAPL_EXCLUDES(lock);
  void detach(std::uint32_t number, Role role, bool solicited_only) noexcept UDAPL_EXCLUDES(lock);
  // Changes `solicited_only` of an attached receiver from `before` to `after`.
  void exchange_receiver(bool before, bool after) noexcept UDAPL_EXCLUDES(qps_lock_);
  // Called when a requester with this QpInit::max_unseen was attached, or detached. If the device
  // cannot make the queue larger, it stays as it is.
  void expect_unseen(int count) noexcept UDAPL_EXCLUDES(qps_lock_);
  void end_unseen(int count) noexcept UDAPL_EXCLUDES(qps_lock_);
  // Called before work with kQuiet is posted.
  void expect_quiet() noexcept {
    if (!filters_.load(std::memory_order_relaxed)) [[unlikely]]
      begin_filtering();
  }

  // ---- for IdleCqScanner -----------------------------------------------------------------------
  // Takes all completions off the verbs CQ, and so notices failures and consumed buffers.
  void scan() noexcept UDAPL_EXCLUDES(lock);
  // Like scan(). Returns how many completions of requests of this QP wait for the next poll.
  [[nodiscard]] int scan_for(std::uint32_t number) noexcept UDAPL_EXCLUDES(lock);
  enum class Scan : std::uint8_t { kNoQps, kPolled, kIdle };
  // Like scan(), but only if the CQ has QPs and was not polled since the last scan.
  [[nodiscard]] Scan scan_if_idle() noexcept UDAPL_EXCLUDES(lock);

  // ---- for CqChannel and Adapter ---------------------------------------------------------------
  // Called by the driving thread when it has read an event of this CQ from the channel.
  void on_event() noexcept UDAPL_EXCLUDES(lock);
  // Like on_event(), for any thread; does not scan idle CQs.
  void note_event() noexcept UDAPL_EXCLUDES(lock);
  // Called by a leader that waits for `word`, under a lock of the channel, when the channel has an
  // event that can only be this CQ's and is to stay unread: ends the arming and notifies. Returns
  // false, and does nothing, if that is not possible. on_left_event() follows when the event is
  // read.
  bool leave_event(WaitWord& word) noexcept;
  void on_left_event() noexcept { acknowledge_event(false); }
  // Like note_event(), for the thread in block(), which waits for `word`.
  void note_event_of_waiter(WaitWord& word) noexcept UDAPL_EXCLUDES(lock);
  // Like on_event(), for a thread that does not drive and holds no lock: makes the sink call
  // itself.
  void on_event_in_call() noexcept UDAPL_EXCLUDES(lock);
  void on_error() noexcept;  // IBV_EVENT_CQ_ERR; called by the driving thread

 private:
  // Sink calls.
  enum Call : unsigned { kNotify, kOverflow };

  // Returns whether this is a successful transfer that its wr_id describes completely.
  [[nodiscard]] bool is_plain(const ibv_wc& work) const noexcept;
  // Converts a plain completion, without the QP's context.
  static void convert_plain(const ibv_wc& from, transport::Completion& to) noexcept;
  // Converts any completion. Returns false if it must not be handed out, for example because its QP
  // has been destroyed.
  [[nodiscard, gnu::noinline]] bool convert(const ibv_wc& from,
                                            transport::Completion& to) const noexcept
      UDAPL_REQUIRES(lock);
  [[nodiscard]] bool convert_special(const ibv_wc& from, const QpMap::Entry& entry,
                                     transport::Completion& to) const noexcept UDAPL_REQUIRES(lock);
  // Polls through held_: returns the held completions first, and none of a QP that was destroyed.
  [[nodiscard, gnu::noinline]] int poll_via_held(transport::Completion* out, int max) noexcept
      UDAPL_REQUIRES(lock);
  [[nodiscard]] int poll_verbs(int most) noexcept UDAPL_REQUIRES(lock);
  int take_held(transport::Completion* out, int max) noexcept UDAPL_REQUIRES(lock);
  // Moves a batch from the verbs CQ to held_, as much as there is room for. Returns its size.
  int hold() noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] bool held_is_full() const noexcept UDAPL_REQUIRES(lock) {
    return held_begin_ == 0 && held_.size() == held_.capacity();
  }
  // Makes room in held_ for as many completions as the verbs CQ has entries; allocates without the
  // spin lock. `more`: in addition to those that are held now. Throws std::bad_alloc.
  void reserve_held(bool more) UDAPL_EXCLUDES(lock);
  void hold_all() noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] bool holds_notification() const noexcept UDAPL_REQUIRES(lock);
  void end_held_if_empty() noexcept UDAPL_REQUIRES(lock);
  void drop_held(std::uint32_t number) noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] bool has_stale() noexcept UDAPL_EXCLUDES(lock) {
    const ScopedLock guard(lock);
    return stale_;
  }
  void set_stale(bool stale) noexcept UDAPL_REQUIRES(lock);
  void update_uses_held() noexcept UDAPL_REQUIRES(lock);
  void make_room() UDAPL_REQUIRES(qps_lock_) UDAPL_EXCLUDES(lock);
  void count(bool solicited_only, int change) noexcept UDAPL_REQUIRES(qps_lock_);
  [[gnu::cold, gnu::noinline]] void note_notifications(int count) noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] static bool is_notification(const ibv_wc& work) noexcept {
    return work.status != IBV_WC_SUCCESS || (work.wr_id & kQuietTag) == 0;
  }
  [[nodiscard]] bool found_notification() noexcept UDAPL_EXCLUDES(lock);
  void request_notification() noexcept;
  // Arms the CQ for a caller that checks for completions afterwards.
  void arm_checked() noexcept UDAPL_EXCLUDES(lock);
  [[gnu::cold, gnu::noinline]] void begin_filtering() noexcept;
  // Whether the event that has arrived is that of a notification completion.
  [[nodiscard]] bool notifies() noexcept UDAPL_EXCLUDES(lock);
  // `word`: the word for which the calling thread waits, or null.
  void acknowledge_event(bool notification, WaitWord* word = nullptr) noexcept;
  // Called when the event of an armed CQ has arrived, or counts as arrived, so that the next arming
  // is passed on to the device.
  void end_arming() noexcept;
  [[nodiscard]] static bool is_armed(std::uint32_t arms) noexcept { return (arms & 1) != 0; }
  void deliver(unsigned call) noexcept;

  struct Held {
    transport::Completion completion;
    std::uint32_t qp_number;
    bool request;
    bool notifies;
  };

  // How many entries beyond `depth` the verbs CQ is asked for.
  [[nodiscard]] int spare_for(int depth) const noexcept;

  ibv_cq* cq_ = nullptr;
  const unsigned invalidate_flags_;                // Device's
  bool uses_held_ UDAPL_GUARDED_BY(lock) = false;  // stale_ is true, or held_ is not empty
  bool polled_ UDAPL_GUARDED_BY(lock) = false;     // polled since the last scan
  std::atomic<bool> filters_{false};               // quiet work was posted: events are checked
  std::array<ibv_wc, kBatch> work_ UDAPL_GUARDED_BY(lock);
  bool stale_ UDAPL_GUARDED_BY(lock) = false;  // may contain completions of destroyed QPs
  // A poll has returned a notification completion since the CQ was armed, or earlier; for
  // found_notification().
  bool handed_notification_ UDAPL_GUARDED_BY(lock) = false;
  bool closed_ UDAPL_GUARDED_BY(lock) = false;  // about to be destroyed: found_notification() ends
  std::vector<Held> held_ UDAPL_GUARDED_BY(lock);
  std::size_t held_begin_ UDAPL_GUARDED_BY(lock) = 0;
  QpMap qps_ UDAPL_GUARDED_BY(lock);

  Adapter& adapter_;
  const std::shared_ptr<CqChannel> channel_;
  // True while the CQ is armed only for the channel's descriptor or, with an own channel, only for
  // the thread in block(). Changed by the channel.
  std::atomic<bool> shown_;
  transport::CqSink& sink_;
  std::atomic<bool> solicited_{false};  // only solicited receives and failures notify
  std::atomic<bool> overflowed_{false};
  std::atomic<int> depth_{0};            // as requested; changed under qps_lock_
  std::atomic<std::uint32_t> arms_{0};   // counts armings and their ends: odd while armed
  std::atomic<bool> for_anyone_{false};  // armed by arm(); may stay true for one event longer

  Mutex qps_lock_ UDAPL_ACQUIRED_BEFORE(lock);  // held by attach and detach
  int solicited_receivers_ UDAPL_GUARDED_BY(qps_lock_) = 0;
  int others_ UDAPL_GUARDED_BY(qps_lock_) = 0;  // requests, and receivers of all messages
  std::atomic<int> unseen_{0};                  // expected; changed under qps_lock_

  SpinLock events_lock_;
  bool closing_ UDAPL_GUARDED_BY(events_lock_) = false;
  unsigned unacknowledged_ UDAPL_GUARDED_BY(events_lock_) = 0;  // events

  SinkGate gate_;
};

}  // namespace udapl::verbs

#include "providers/verbs/cq_poll.h"
