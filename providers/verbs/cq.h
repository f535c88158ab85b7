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
#include <vector>

namespace udapl::verbs {

class Adapter;
class Srq;

// A completion queue on a verbs CQ. Thread-safe as transport::Cq says. Owned by an EVD.
//
// A poll is one ibv_poll_cq and one pass over what it gave. Which request an ordinary completion is
// of, its wr_id says; the QP number is looked up for the others.
//
// Three things take completions off the verbs CQ without handing them out; the next poll gives them
// from `held_`. size(): verbs does not tell how many wait. The IdleCqScanner. And the filter, in
// the reactor thread, when an armed CQ fires that quiet completions are put on: the device cannot
// tell them from notifications.
//
// The verbs CQ may still have completions of a QP that has been destroyed. They are not handed out:
// until the CQ has once been seen empty, every QP number is looked up.
class Cq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = false;  // for dapl::CompletionQueue
  static constexpr int kBatch = 16;               // completions a poll gives at most

  enum class Role { kReceive, kRequest };

  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc. REQUIRES: depth > 0.
  static Result<std::unique_ptr<transport::Cq>> create(Adapter& adapter, int depth,
                                                       transport::CqSink& sink);
  Cq(Adapter& adapter, transport::CqSink& sink);  // use create()
  ~Cq() override;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  int poll(transport::Completion* out, int max) noexcept override UDAPL_REQUIRES(lock);
  // For dapl::PollsBatches, which see.
  [[nodiscard]] bool polls_batches() const noexcept UDAPL_REQUIRES(lock) { return !careful_; }
  [[nodiscard]] int poll_batch() noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] bool take_only(transport::Completion& only) noexcept UDAPL_REQUIRES(lock);
  int convert_batch(int count, transport::Completion* out) noexcept UDAPL_REQUIRES(lock);
  bool progress() noexcept override { return false; }
  void arm() noexcept override UDAPL_EXCLUDES(lock);
  [[nodiscard]] int size() noexcept override UDAPL_REQUIRES(lock);
  // MODEL_NOT_SUPPORTED: the device cannot make it larger.
  Status resize(int depth) override;
  [[nodiscard]] int depth() const noexcept override;

  // ---- for Queue -------------------------------------------------------------------------------
  [[nodiscard]] ibv_cq* get() const noexcept { return cq_; }
  // The QP feeds this CQ: once for each role that it has, after ibv_create_qp and before its first
  // post; detach after ibv_destroy_qp. When detach returns, no completion of the QP is handed out
  // any more, and no poll calls it. Locks of the Qp may be held. attach throws std::bad_alloc.
  // `srq`: where the QP takes its receives from, if not from its own queue.
  void attach(Queue& queue, std::uint32_t number, void* context, Role role, bool solicited_only,
              Srq* srq = nullptr) UDAPL_EXCLUDES(lock);
  void detach(std::uint32_t number, Role role, bool solicited_only) noexcept UDAPL_EXCLUDES(lock);
  // Work with kQuiet is about to be posted.
  void expect_quiet() noexcept {
    if (!filters_.load(std::memory_order_relaxed)) [[unlikely]]
      filters_.store(true, std::memory_order_relaxed);
  }

  // ---- for IdleCqScanner -----------------------------------------------------------------------
  // Takes off the verbs CQ what is there, and so notices failures and buffers that were consumed.
  void scan() noexcept UDAPL_EXCLUDES(lock);
  enum class Scan : std::uint8_t { kNoQps, kPolled, kIdle };
  // As scan(), if it has QPs and was not polled since the last scan.
  [[nodiscard]] Scan scan_if_idle() noexcept UDAPL_EXCLUDES(lock);

  // ---- for Adapter: by the reactor thread ------------------------------------------------------
  void on_event() noexcept UDAPL_EXCLUDES(lock);  // the completion channel names this CQ
  void on_error() noexcept;                       // IBV_EVENT_CQ_ERR

 private:
  // Sink calls.
  enum Call : unsigned { kNotify, kOverflow };

  // Is it the success of a transfer that is what its wr_id says?
  [[nodiscard]] bool is_plain(const ibv_wc& work) const noexcept;
  // Of a plain one: all but the QP's context.
  static void convert_plain(const ibv_wc& from, transport::Completion& to) noexcept;
  // Of any. False: it is not handed on; its QP may be gone.
  [[nodiscard, gnu::noinline]] bool convert(const ibv_wc& from,
                                            transport::Completion& to) const noexcept
      UDAPL_REQUIRES(lock);
  [[nodiscard]] bool convert_special(const ibv_wc& from, const QpMap::Entry& entry,
                                     transport::Completion& to) const noexcept UDAPL_REQUIRES(lock);
  // As poll(): gives what is held, and no completion of a QP that is gone.
  [[nodiscard, gnu::noinline]] int poll_carefully(transport::Completion* out, int max) noexcept
      UDAPL_REQUIRES(lock);
  [[nodiscard]] int poll_verbs() noexcept UDAPL_REQUIRES(lock);
  int take_held(transport::Completion* out, int max) noexcept UDAPL_REQUIRES(lock);
  // Takes a batch off the verbs CQ to held_; how many, a negative number: no memory.
  int hold() noexcept UDAPL_REQUIRES(lock);
  void hold_all() noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] bool holds_notification() const noexcept UDAPL_REQUIRES(lock);
  void end_held_if_empty() noexcept UDAPL_REQUIRES(lock);
  void drop_held(std::uint32_t number) noexcept UDAPL_REQUIRES(lock);
  void set_stale(bool stale) noexcept UDAPL_REQUIRES(lock);
  void update_careful() noexcept UDAPL_REQUIRES(lock);
  void make_room() UDAPL_REQUIRES(qps_lock_) UDAPL_EXCLUDES(lock);
  [[gnu::cold, gnu::noinline]] void note_notifications(int count) noexcept UDAPL_REQUIRES(lock);
  [[nodiscard]] static bool is_notification(const ibv_wc& work) noexcept {
    return work.status != IBV_WC_SUCCESS || (work.wr_id & kQuietTag) == 0;
  }
  [[nodiscard]] bool found_notification() noexcept UDAPL_EXCLUDES(lock);
  void request_notification() noexcept;
  // Its event has come, or it is as if: the next request reaches the device.
  void end_arming() noexcept;
  [[nodiscard]] static bool is_armed(std::uint32_t arms) noexcept { return (arms & 1) != 0; }
  void deliver(unsigned call) noexcept;

  struct Held {
    transport::Completion completion;
    std::uint32_t qp_number;
    bool notifies;
  };

  ibv_cq* cq_ = nullptr;
  const unsigned invalidate_flags_;              // Device's
  bool careful_ UDAPL_GUARDED_BY(lock) = false;  // held_ is not empty, or stale_
  bool polled_ UDAPL_GUARDED_BY(lock) = false;   // since the last scan
  std::atomic<bool> filters_{false};             // quiet work is posted
  std::array<ibv_wc, kBatch> work_ UDAPL_GUARDED_BY(lock);

  bool stale_ UDAPL_GUARDED_BY(lock) = false;  // completions of QPs that are gone may come
  // Since it was armed, at the latest; only found_notification() wants to know.
  bool handed_notification_ UDAPL_GUARDED_BY(lock) = false;
  bool closed_ UDAPL_GUARDED_BY(lock) = false;  // about to be destroyed, not touched any more
  std::vector<Held> held_ UDAPL_GUARDED_BY(lock);
  std::size_t held_begin_ UDAPL_GUARDED_BY(lock) = 0;
  QpMap qps_ UDAPL_GUARDED_BY(lock);

  Adapter& adapter_;
  transport::CqSink& sink_;
  std::atomic<bool> solicited_{false};  // only solicited receives and failures notify
  std::atomic<bool> overflowed_{false};
  std::atomic<std::uint32_t> arms_{0};  // armings and their ends

  Mutex qps_lock_ UDAPL_ACQUIRED_BEFORE(lock);  // held while QPs come and go
  int solicited_receivers_ UDAPL_GUARDED_BY(qps_lock_) = 0;
  int others_ UDAPL_GUARDED_BY(qps_lock_) = 0;  // requests, and receivers of all messages

  SpinLock events_lock_;
  bool closing_ UDAPL_GUARDED_BY(events_lock_) = false;
  unsigned unacknowledged_ UDAPL_GUARDED_BY(events_lock_) = 0;  // events

  SinkGate gate_;
};

}  // namespace udapl::verbs

#include "providers/verbs/cq_poll.h"
