// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl::soft {

class Qp;

// A completion queue: a ring that many QPs fill, one at a time, and one consumer, which holds
// `lock`, empties. The two sides share no lock. Thread-safe as described at transport::Cq. Owned by
// an EVD.
class Cq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = true;  // for dapl::CompletionQueue

  // REQUIRES: depth > 0. Throws std::bad_alloc.
  Cq(Reactor& reactor, int depth, transport::CqSink& sink);
  ~Cq() override = default;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  int poll(transport::Completion* out, int max) noexcept override UDAPL_REQUIRES(lock);
  bool progress() noexcept override { return reactor_.poll(); }
  // Called for each completion taken. A consumer that always finds one has to drive now and then,
  // too, or nothing else makes progress. And it must soon be recognised as polling: until then its
  // posts are sent one by one, which takes so long that its turns come too late for that.
  [[nodiscard]] bool turn_due() noexcept {
    const std::uint32_t takes = takes_.load(std::memory_order_relaxed) + 1;
    takes_.store(takes, std::memory_order_relaxed);
    if (takes % kTakesUnnoticed == 0) reactor_.found_without_poll();
    return takes % kTakesPerTurn == 0;
  }
  void arm() noexcept override UDAPL_EXCLUDES(push_lock_);
  [[nodiscard]] int size() noexcept override UDAPL_REQUIRES(lock);
  Status resize(int depth) override UDAPL_EXCLUDES(lock, push_lock_);
  [[nodiscard]] int depth() const noexcept override UDAPL_EXCLUDES(push_lock_);

  // ---- for Qp ----------------------------------------------------------------------------------
  // Appends a completion of `owner`; `notify`: it is a notification. False: the queue is full, or
  // was once, and the completion is lost; the QP has to break. The caller holds its Qp lock.
  [[nodiscard]] bool push(const transport::Completion& completion, const Qp& owner,
                          bool notify) noexcept UDAPL_EXCLUDES(push_lock_);
  // Whom to tell of an overflow; once for each role that a QP has. detach waits for a call of
  // Qp::on_cq_overflow: no Qp lock may be held. attach throws std::bad_alloc.
  void attach(Qp& qp) UDAPL_EXCLUDES(qps_lock_);
  void detach(Qp& qp) noexcept UDAPL_EXCLUDES(qps_lock_);
  // How many completions of receives of `qp` are queued.
  [[nodiscard]] int receives_of(const Qp& qp) const noexcept UDAPL_EXCLUDES(push_lock_);
  // Removes what `qp` has queued; the order of the rest stays.
  void purge(const Qp& qp) noexcept UDAPL_EXCLUDES(lock, push_lock_);

 private:
  struct Slot {
    transport::Completion completion;
    const Qp* owner;
  };
  static constexpr std::uint32_t kTakesPerTurn = 16;
  static constexpr std::uint32_t kTakesUnnoticed = 4;
  // Sink calls.
  enum Call : unsigned { kNotify, kOverflow };
  void deliver(unsigned call) noexcept;
  void break_qps() noexcept UDAPL_EXCLUDES(qps_lock_);

  Reactor& reactor_;
  transport::CqSink& sink_;

  // Changed under both locks; so either is enough to read them.
  std::unique_ptr<Slot[]> slots_;
  std::uint64_t mask_;

  // Positions count all completions ever: `head_` is the consumer's, `tail_` the producers'.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint32_t> takes_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  mutable SpinLock push_lock_ UDAPL_ACQUIRED_AFTER(lock);  // of the producers
  std::uint64_t depth_ UDAPL_GUARDED_BY(push_lock_);
  bool armed_ UDAPL_GUARDED_BY(push_lock_) = false;
  bool overflowed_ UDAPL_GUARDED_BY(push_lock_) = false;

  Mutex qps_lock_;  // outside all Qp locks
  std::vector<Qp*> qps_ UDAPL_GUARDED_BY(qps_lock_);
  SinkGate gate_;
};

}  // namespace udapl::soft
