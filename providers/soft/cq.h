// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"
#include "providers/soft/completion_demand.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl::soft {

class Qp;

// A completion queue: a ring that QPs fill, one at a time, and that one consumer, which holds
// `lock`, empties. QPs and consumer share no lock. Thread-safe as described at transport::Cq. Owned
// by an EVD.
class Cq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = true;  // for dapl::CompletionQueue

  // REQUIRES: depth > 0. Throws std::bad_alloc.
  Cq(Reactor& reactor, int depth, transport::CqSink& sink);
  ~Cq() override = default;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  int poll(transport::Completion* out, int max) noexcept override UDAPL_REQUIRES(lock);
  // Implement dapl::PollsBatches; see there.
  static constexpr int kBatch = 16;
  [[nodiscard]] bool polls_batches() const noexcept UDAPL_REQUIRES(lock) { return true; }
  [[nodiscard]] int poll_batch() noexcept UDAPL_REQUIRES(lock) {
    return static_cast<int>(std::min<std::uint64_t>(waiting(), kBatch));
  }
  [[nodiscard]] bool take_only(transport::Completion& only) noexcept UDAPL_REQUIRES(lock) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    only = slots_[head & mask_].completion;
    head_.store(head + 1, std::memory_order_release);  // the slot may be written again
    return true;
  }
  int convert_batch(int count, transport::Completion* out) noexcept UDAPL_REQUIRES(lock) {
    return poll(out, count);
  }
  bool progress() noexcept override { return reactor_.poll(); }
  // Called for each completion that was taken. Returns whether the consumer should make a turn of
  // the reactor now. Even a consumer that always finds a completion must drive now and then, or
  // nothing else makes progress. Also reports early that the consumer polls: before the reactor
  // knows that, each post is sent separately, which takes so long that the consumer's turns would
  // be too far apart to count as polling.
  [[nodiscard]] bool turn_due() noexcept {
    const std::uint32_t takes = takes_.load(std::memory_order_relaxed) + 1;
    takes_.store(takes, std::memory_order_relaxed);
    if (takes % kTakesPerReport != 0) return false;
    reactor_.found_without_poll();
    if (takes % kTakesPerTurn != 0) return false;
    reactor_.found_many();
    return true;
  }
  void arm() noexcept override UDAPL_EXCLUDES(push_lock_, qps_lock_);
  // Like arm(), but the notification does not wake the service thread while the application polls:
  // the thread that waits for the completion drives the reactor.
  void arm_for_waiters() noexcept override UDAPL_EXCLUDES(push_lock_, qps_lock_);
  void await_several(std::size_t count) noexcept override UDAPL_EXCLUDES(push_lock_);
  [[nodiscard]] int size() noexcept override UDAPL_REQUIRES(lock);
  Status resize(int depth) override UDAPL_EXCLUDES(lock, push_lock_, qps_lock_);
  [[nodiscard]] int depth() const noexcept override UDAPL_EXCLUDES(push_lock_);

  // ---- for Qp ----------------------------------------------------------------------------------
  // Appends a completion of `owner`. `notify`: whether the completion notifies the consumer of an
  // armed CQ. Returns false if the queue is full, or has been full before: the completion is lost,
  // and the QP must break its connection. The caller holds its Qp lock. Inline, so that the
  // compiler builds the completion in its slot: a copy would have to wait for the stores of the
  // members.
  [[nodiscard, gnu::always_inline]] bool push(const transport::Completion& completion,
                                              const Qp& owner, bool notify) noexcept
      UDAPL_EXCLUDES(push_lock_);
  // Registers a QP: its on_cq_overflow() and on_completion_wanted() are called. Called once for
  // each role that the QP has, requester and receiver. `unseen`: QpInit::max_unseen for a
  // requester. detach() waits for such calls that are running, so no Qp lock may be held. attach()
  // throws std::bad_alloc.
  void attach(Qp& qp, int unseen = 0) UDAPL_EXCLUDES(lock, push_lock_, qps_lock_);
  void detach(Qp& qp) noexcept UDAPL_EXCLUDES(qps_lock_);
  // For streams over which peers confirm requests. arm() calls Qp::on_completion_wanted if there
  // are sleepers.
  [[nodiscard]] CompletionDemand& demand() noexcept { return demand_; }
  // The number of queued completions, which other threads may be changing.
  [[nodiscard]] std::uint64_t untaken() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return std::max(tail_.load(std::memory_order_relaxed), head) - head;
  }
  // Returns the number of queued receive completions of `qp`.
  [[nodiscard]] int receives_of(const Qp& qp) const noexcept UDAPL_EXCLUDES(push_lock_);
  // Removes the completions of `qp`; the others keep their order.
  void purge(const Qp& qp) noexcept UDAPL_EXCLUDES(lock, push_lock_);

 private:
  struct Slot {
    transport::Completion completion;
    const Qp* owner;
  };
  struct Attached {
    Qp* qp;
    int unseen;
  };
  static constexpr std::uint32_t kTakesPerTurn = 16;
  static constexpr std::uint32_t kTakesPerReport = 4;
  // Sink calls.
  enum Call : unsigned { kNotify, kOverflow };
  void deliver(unsigned call) noexcept;
  [[nodiscard]] std::uint64_t waiting() const noexcept UDAPL_REQUIRES(lock) {
    // acquire: pairs with push().
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_relaxed);
  }
  enum class For : std::uint8_t { kAnyone, kWaiters };
  void arm(For whom) noexcept UDAPL_EXCLUDES(push_lock_, qps_lock_);
  void post_notification(For whom) noexcept;
  void overflow() noexcept UDAPL_REQUIRES(push_lock_);
  void break_qps() noexcept UDAPL_EXCLUDES(qps_lock_);
  void wake_sleepers() noexcept UDAPL_EXCLUDES(qps_lock_);
  // INVALID_STATE: more than `depth` + `unseen` completions are queued. Throws std::bad_alloc.
  Status set_capacity(int depth, int unseen) UDAPL_REQUIRES(qps_lock_)
      UDAPL_EXCLUDES(lock, push_lock_);

  Reactor& reactor_;
  transport::CqSink& sink_;

  // Changed only while both lock and push_lock_ are held, so either lock suffices to read them.
  std::unique_ptr<Slot[]> slots_;
  std::uint64_t mask_;

  // Positions only ever increase: `head_` is the consumer's, `tail_` the producers'.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint32_t> takes_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  mutable SpinLock push_lock_ UDAPL_ACQUIRED_AFTER(lock);  // of the producers
  int depth_ UDAPL_GUARDED_BY(push_lock_);
  std::uint64_t capacity_ UDAPL_GUARDED_BY(push_lock_);  // at least depth_ + unseen_
  CompletionDemand demand_;  // `wanted`: armed; changed under push_lock_
  std::size_t missing_ UDAPL_GUARDED_BY(push_lock_) = 0;  // if armed: completions until it notifies
  For armed_for_ UDAPL_GUARDED_BY(push_lock_) = For::kAnyone;  // the latest arming
  bool overflowed_ UDAPL_GUARDED_BY(push_lock_) = false;

  Mutex qps_lock_;  // acquired before the lock of a Qp
  std::vector<Attached> qps_ UDAPL_GUARDED_BY(qps_lock_);
  int unseen_ UDAPL_GUARDED_BY(qps_lock_) = 0;  // the sum over qps_
  SinkGate gate_;
};

inline bool Cq::push(const transport::Completion& completion, const Qp& owner,
                     bool notify) noexcept {
  bool fire = false;
  For whom{};
  {
    const ScopedLock push_guard(push_lock_);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (overflowed_ || tail - head_.load(std::memory_order_acquire) >= capacity_) [[unlikely]] {
      overflow();
      return false;
    }
    slots_[tail & mask_] = {completion, &owner};
    tail_.store(tail + 1, std::memory_order_release);
    fire = notify && demand_.wanted.load(std::memory_order_relaxed) && --missing_ == 0;
    if (fire) demand_.wanted.store(false, std::memory_order_relaxed);
    whom = armed_for_;
  }
  if (fire) [[unlikely]]
    post_notification(whom);
  return true;
}

}  // namespace udapl::soft
