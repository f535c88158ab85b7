// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"

#include <atomic>
#include <memory>
#include <vector>

namespace udapl::soft {

class Qp;
class Reactor;

// A completion queue: a ring that many QPs fill and one consumer empties. The lock is a leaf; a
// poll of an empty queue takes none. Notifications are handed to the reactor and reach the sink
// from whoever drives it. Thread-safe as transport::Cq says. Owned by an EVD.
class Cq final : public transport::Cq {
 public:
  // REQUIRES: depth > 0. Throws std::bad_alloc.
  Cq(Reactor& reactor, int depth, transport::CqSink& sink);
  ~Cq() override;  // waits for a running sink call
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  int poll(transport::Completion* out, int max) noexcept override;
  void progress() noexcept override;
  void arm() noexcept override;
  [[nodiscard]] int size() const noexcept override;
  Status resize(int depth) override;
  [[nodiscard]] int depth() const noexcept override;

  // ---- for Qp ----------------------------------------------------------------------------------
  // Appends a completion of `owner`; `notify` says whether it is a notification. False: the queue
  // is full (now or earlier) and the completion is lost; the QP has to break. Never blocks, never
  // allocates, calls no sink. Callers hold their Qp lock.
  [[nodiscard]] bool push(const transport::Completion& completion, const Qp* owner,
                          bool notify) noexcept UDAPL_EXCLUDES(lock_);
  // Removes what `owner` has queued; the order of the rest stays.
  void purge(const Qp* owner) noexcept UDAPL_EXCLUDES(lock_);
};

}  // namespace udapl::soft
