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

// A completion queue: a ring that many QPs fill and one consumer empties. A poll of an empty queue
// takes no lock. Thread-safe as transport::Cq says. Owned by an EVD.
class Cq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = true;  // for dapl::CompletionQueue

  // REQUIRES: depth > 0. Throws std::bad_alloc.
  Cq(Reactor& reactor, int depth, transport::CqSink& sink);
  ~Cq() override = default;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  int poll(transport::Completion* out, int max) noexcept override;
  void progress() noexcept override { reactor_.progress(); }
  void arm() noexcept override;
  [[nodiscard]] int size() const noexcept override;
  Status resize(int depth) override;
  [[nodiscard]] int depth() const noexcept override;

  // ---- for Qp ----------------------------------------------------------------------------------
  // Appends a completion of `owner`; `notify`: it is a notification. False: the queue is full, or
  // was once, and the completion is lost; the QP has to break. The caller holds its Qp lock.
  [[nodiscard]] bool push(const transport::Completion& completion, const Qp& owner,
                          bool notify) noexcept UDAPL_EXCLUDES(lock_);
  // Whom to tell of an overflow; once for each role that a QP has. detach waits for a call of
  // Qp::on_cq_overflow: no Qp lock may be held. attach throws std::bad_alloc.
  void attach(Qp& qp) UDAPL_EXCLUDES(qps_lock_);
  void detach(Qp& qp) noexcept UDAPL_EXCLUDES(qps_lock_);
  // Removes what `qp` has queued; the order of the rest stays.
  void purge(const Qp& qp) noexcept UDAPL_EXCLUDES(lock_);

 private:
  struct Slot {
    transport::Completion completion;
    const Qp* owner;
  };
  // Sink calls.
  enum Call : unsigned { kNotify, kOverflow };
  void deliver(unsigned call) noexcept;
  void break_qps() noexcept UDAPL_EXCLUDES(qps_lock_);

  Reactor& reactor_;
  transport::CqSink& sink_;

  // Positions count all completions ever; written under the lock, `head_` by the consumer, `tail_`
  // by the producers.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) mutable SpinLock lock_;
  std::unique_ptr<Slot[]> slots_ UDAPL_GUARDED_BY(lock_);
  std::uint64_t mask_ UDAPL_GUARDED_BY(lock_);
  std::uint64_t depth_ UDAPL_GUARDED_BY(lock_);
  bool armed_ UDAPL_GUARDED_BY(lock_) = false;
  bool overflowed_ UDAPL_GUARDED_BY(lock_) = false;

  Mutex qps_lock_;  // outside all Qp locks
  std::vector<Qp*> qps_ UDAPL_GUARDED_BY(qps_lock_);
  SinkGate gate_;
};

}  // namespace udapl::soft
