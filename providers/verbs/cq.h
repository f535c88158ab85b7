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
// The consumer who comes through the PollGate polls with fetch() and hand_out(): one ibv_poll_cq
// and one pass over what it gave, without a lock; which request a completion is of, its wr_id says.
// Everybody else calls poll(), which takes the lock, and so does the consumer while the gate is
// closed to him. That is how those keep him out who look into the CQ from other threads, and how it
// is made sure that nothing of a QP that is gone is handed out (docs/adr/0019).
//
// Three things take completions off the verbs CQ without handing them out; the next poll gives them
// from `held_`. size(): verbs does not tell how many wait. The CqPatrol. And the filter, in the
// driver, when an armed CQ fires that quiet completions are put on: the device cannot tell them
// from notifications. From the first time on, the gate of that CQ stays closed. What is held of a
// QP goes with it.
//
// Where the consumer serialises his calls, the verbs CQ is one for a single thread, if the device
// has such (docs/adr/0021): its driver may do without a lock of its own, also while it creates or
// destroys a QP of this CQ. Then nothing touches the verbs CQ but the announced consumer at the
// open gate, an Access while he is kept out or is the caller, and what is done in an Exclusion.
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

  int poll(transport::Completion* out, int max) noexcept override UDAPL_EXCLUDES(lock_);
  // For dapl::FetchingQueue.
  [[nodiscard]] int fetch() noexcept { return ibv_poll_cq(cq_, kBatch, work_.data()); }
  [[nodiscard]] int hand_out(int fetched, transport::Completion* out) noexcept;
  void progress() noexcept override {}
  void arm() noexcept override UDAPL_EXCLUDES(lock_);
  void arm_beside_consumer() noexcept override UDAPL_EXCLUDES(lock_);
  // As poll: needs the caller's serialisation.
  [[nodiscard]] int size() const noexcept override UDAPL_EXCLUDES(lock_);
  // MODEL_NOT_SUPPORTED: the device cannot make it larger.
  Status resize(int depth) override UDAPL_EXCLUDES(lock_);
  [[nodiscard]] int depth() const noexcept override;

  // ---- for Qp ----------------------------------------------------------------------------------
  [[nodiscard]] ibv_cq* get() const noexcept { return cq_; }
  // While it lives, its thread alone is at the verbs CQs, those that are for a single thread. For
  // what verbs does to a CQ without naming it: when a QP is created, and when it is destroyed. No
  // lock that a driver of events waits for may be held.
  class Exclusion {
   public:
    explicit Exclusion(Cq& cq) noexcept : Exclusion(*cq.cq_, *cq.cq_) {}
    Exclusion(const ibv_cq& one, const ibv_cq& other) noexcept;  // ours; may be the same
    ~Exclusion();
    Exclusion(const Exclusion&) = delete;
    Exclusion& operator=(const Exclusion&) = delete;

   private:
    Cq* first_;  // null: nothing to do
    Cq* second_;
  };
  // The QP feeds this CQ: once for each role that it has, after ibv_create_qp and before its first
  // post; detach after ibv_destroy_qp. When detach returns, no completion of the QP is handed out
  // any more, and no poll calls it. Locks of the Qp may be held. attach throws std::bad_alloc.
  // `srq`: where the QP takes its receives from, if not from its own queue.
  void attach(Qp& qp, std::uint32_t number, void* context, Role role, bool solicited_only,
              Srq* srq = nullptr) UDAPL_EXCLUDES(lock_);
  void detach(std::uint32_t number, Role role, bool solicited_only) noexcept UDAPL_EXCLUDES(lock_);
  // Work with kQuiet is about to be posted.
  void expect_quiet() noexcept {
    if (!filters_.load(std::memory_order_relaxed)) [[unlikely]]
      filters_.store(true, std::memory_order_relaxed);
  }

  // ---- for CqPatrol, under its lock ------------------------------------------------------------
  [[nodiscard]] bool has_qps() noexcept { return !qps_.empty(); }
  // False: it has been polled since the last look, and `only_idle` is set; or it has no QPs. After
  // true: a process_barrier(), then end_look().
  [[nodiscard]] bool begin_look(bool only_idle) noexcept UDAPL_EXCLUDES(lock_);
  void end_look() noexcept UDAPL_EXCLUDES(lock_);

  // ---- for Adapter: by the driver --------------------------------------------------------------
  void on_event() noexcept UDAPL_EXCLUDES(lock_);  // the completion channel names this CQ
  void on_error() noexcept;                        // IBV_EVENT_CQ_ERR

 private:
  // Bits of mode_. Any: the gate is closed. kHeld: held_ is not empty. kLocked: the driver filters,
  // or there is no process_barrier(). kLooking: between begin_look and end_look. kGhosts:
  // completions of QPs that are gone may be on the verbs CQ. kTaken: by an Exclusion. kClosed: it
  // is about to be destroyed, and not touched any more.
  enum Mode : unsigned {
    kHeld = 1,
    kLocked = 2,
    kLooking = 4,
    kGhosts = 8,
    kTaken = 16,
    kClosed = 32
  };
  // The lock, as soon as no Exclusion has the verbs CQ.
  class UDAPL_SCOPED_CAPABILITY Access {
   public:
    explicit Access(Cq& cq) noexcept UDAPL_ACQUIRE(cq.lock_);
    ~Access() UDAPL_RELEASE();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    Cq& cq_;
  };
  // Sink calls.
  enum Call : unsigned { kNotify, kOverflow };

  // Is it the success of a transfer that is what its wr_id says?
  [[nodiscard]] bool is_plain(const ibv_wc& work) const noexcept;
  // Of a plain one: all but the QP's context.
  static void convert_plain(const ibv_wc& from, transport::Completion& to) noexcept;
  // Of any. False: it is not handed on; its QP may be gone.
  [[nodiscard, gnu::noinline]] bool convert(const ibv_wc& from,
                                            transport::Completion& to) const noexcept;
  [[nodiscard]] bool convert_special(const ibv_wc& from, const QpMap::Entry& entry,
                                     transport::Completion& to) const noexcept;
  // Takes up to `max` off the verbs CQ; how many.
  int poll_verbs(ibv_wc* work, int max) noexcept UDAPL_REQUIRES(lock_);
  int take_held(transport::Completion* out, int max) noexcept UDAPL_REQUIRES(lock_);
  // Takes up to kBatch to held_; a negative number: no memory.
  int hold() noexcept UDAPL_REQUIRES(lock_);
  void hold_all() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool holds_notification() const noexcept UDAPL_REQUIRES(lock_);
  void end_held_if_empty() noexcept UDAPL_REQUIRES(lock_);
  void drop_held(std::uint32_t number) noexcept UDAPL_EXCLUDES(lock_);
  void forget_ghosts() noexcept UDAPL_EXCLUDES(lock_);
  void set_mode(unsigned bit, bool on) noexcept UDAPL_REQUIRES(lock_);
  void wait_for_consumer() const noexcept;
  void quiesce() noexcept UDAPL_EXCLUDES(lock_);
  void keep_out(unsigned mode) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool found_notification() noexcept UDAPL_EXCLUDES(lock_);
  void request_notification() const noexcept;
  // Null and errno.
  [[nodiscard]] ibv_cq* make(int depth) noexcept;
  void take() noexcept UDAPL_EXCLUDES(lock_);
  void give_back() noexcept UDAPL_EXCLUDES(lock_);
  void deliver(unsigned call) noexcept;

  // The consumer's.
  ibv_cq* cq_ = nullptr;
  bool single_threaded_ = false;     // it is a CQ for a single thread
  const unsigned invalidate_flags_;  // Device's
  std::array<ibv_wc, kBatch> work_;  // what was fetched

  QpMap qps_;
  Adapter& adapter_;
  transport::CqSink& sink_;
  transport::PollGate own_gate_;  // of a CQ that nobody polls through one
  transport::PollGate& poll_gate_;
  std::atomic<bool> filters_{false};    // quiet work is posted
  std::atomic<bool> solicited_{false};  // only solicited receives and failures notify
  std::atomic<bool> overflowed_{false};
  std::atomic<bool> polled_{false};  // with poll(), since the CqPatrol looked

  mutable SpinLock lock_;
  struct Held {
    transport::Completion completion;
    std::uint32_t qp_number;
    bool notifies;
  };
  unsigned mode_ UDAPL_GUARDED_BY(lock_) = 0;
  std::vector<Held> held_ UDAPL_GUARDED_BY(lock_);
  std::size_t held_begin_ UDAPL_GUARDED_BY(lock_) = 0;

  Mutex roles_lock_;
  int solicited_receivers_ UDAPL_GUARDED_BY(roles_lock_) = 0;
  int others_ UDAPL_GUARDED_BY(roles_lock_) = 0;  // requests, and receivers of all messages

  SpinLock events_lock_;
  bool closing_ UDAPL_GUARDED_BY(events_lock_) = false;
  unsigned unacknowledged_ UDAPL_GUARDED_BY(events_lock_) = 0;  // events

  SinkGate gate_;
};

}  // namespace udapl::verbs

#include "providers/verbs/cq_poll.h"
