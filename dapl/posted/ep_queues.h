// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/prefetch.h"
#include "common/spin_lock.h"
#include "dapl/objects/object.h"
#include "dapl/posted/cookie_ring.h"
#include "dapl/transport/qp.h"

#include <atomic>
#include <cstdint>

namespace udapl::dapl {

class DiscardCq;
class Evd;
class Pz;

// One direction of an EP as the posts see it (datapath.h). Posts hold `lock` through their Guard;
// code that changes a member acquires it in any case.
struct alignas(64) RequestQueue {
  RequestQueue(EpQueues& owner, std::uint32_t limit) : cookies(limit, &owner) {}

  SpinLock lock;
  // Completion flags that a send may carry; other requests: these without SOLICITED_WAIT.
  std::uint32_t legal_flags UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_segments UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_read_segments UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_write_segments UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_message UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_rdma UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t silent UDAPL_GUARDED_BY(lock) = 0;  // suppressed posts since the last signalled one
  std::uint32_t max_silent UDAPL_GUARDED_BY(lock) = 0;
  transport::Qp* qp UDAPL_GUARDED_BY(lock) = nullptr;
  // Not null if there is no request EVD: then all requests count as suppressed.
  DiscardCq* discard UDAPL_GUARDED_BY(lock) = nullptr;
  // The members above fill one cache line, which is all that most posts need.
  const Pz* pz UDAPL_GUARDED_BY(lock) = nullptr;
  Evd* evd UDAPL_GUARDED_BY(lock) = nullptr;
  bool can_invalidate UDAPL_GUARDED_BY(lock) = false;
  bool can_read_to_rmr UDAPL_GUARDED_BY(lock) = false;
  CookieRing cookies;
};
struct alignas(64) ReceiveQueue {
  ReceiveQueue(EpQueues& owner, std::uint32_t limit) : cookies(limit, &owner) {}

  SpinLock lock;
  std::uint32_t legal_flags UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_segments UDAPL_GUARDED_BY(lock) = 0;
  // True while the transport is replacing the QP: posts wait. dat_ep_modify cannot hold the lock
  // instead, because it blocks.
  bool exchanging UDAPL_GUARDED_BY(lock) = false;
  // Null: nothing can be posted (no PZ yet, an SRQ, or a reset is running).
  transport::Qp* qp UDAPL_GUARDED_BY(lock) = nullptr;
  DiscardCq* discard UDAPL_GUARDED_BY(lock) = nullptr;  // not null if there is no receive EVD
  Evd* evd UDAPL_GUARDED_BY(lock) = nullptr;
  CookieRing cookies;
};

// The part of an EP that posts and completions use: its two queues, and what these need to know of
// the connection. Class Ep has the rest.
//
// While request_gate (receive_gate) is open, a post of one segment with default flags needs no
// further check of state and configuration: the EP accepts such posts, signals them and allows at
// least one segment. The gates change with the state.
//
// Thread safety: everything may be called from any thread; the queues have locks of their own.
class EpQueues : public ObjectHeader {
  std::atomic<DAT_EP_STATE> state_;  // here: in the cache line before the one of `requests`

 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_EP;

  RequestQueue requests;
  ReceiveQueue receives;

  [[nodiscard]] DAT_EP_STATE state() const noexcept {
    const DAT_EP_STATE now = state_.load(std::memory_order_acquire);
    return now == kResetting ? DAT_EP_STATE_DISCONNECTED : now;
  }
  // The state as posts read it, which includes kResetting, in which nothing may be posted.
  [[nodiscard]] DAT_EP_STATE posting_state() const noexcept {
    return state_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_srq() const noexcept { return has_srq_; }
  // Whether the EP is connecting and is still to post its ESTABLISHED event to `evd`, which holds
  // back the EP's completions as long as this is true.
  [[nodiscard]] bool awaits_established_on(const Evd& evd) const noexcept {
    return awaits_established_on_.load(std::memory_order_acquire) == &evd;
  }
  // Why the last connection broke, or "" if it did not; and a detail of that, or "". The strings
  // have static lifetime.
  [[nodiscard]] const char* break_reason() const noexcept {
    const char* const reason = broken_by_.load(std::memory_order_acquire);
    return reason != nullptr ? reason : "";
  }
  [[nodiscard]] const char* break_detail() const noexcept {
    return break_detail_.load(std::memory_order_relaxed);
  }
  // Prefetches what posts and completions need.
  void prefetch() const noexcept {
    prefetch_bytes(this, sizeof *this);
    requests.cookies.prefetch();
    receives.cookies.prefetch();
  }
  // Frees the slot of a completed work request, and those of suppressed ones before it. The caller
  // holds the lock of the CQ.
  void retire(const Cookie& cookie) noexcept {
    if (cookie.operation == DAT_DTO_RECEIVE)
      receives.cookies.retire(&cookie);
    else
      requests.cookies.retire(&cookie);
  }

 protected:
  // The state during a reset and when the EP is destroyed; state() returns DISCONNECTED for it.
  static constexpr auto kResetting = static_cast<DAT_EP_STATE>(15);

  // `max_requests`, `max_receives`: how many can be outstanding.
  EpQueues(const DAT_PROVIDER* table, Ia* owner, DAT_EP_STATE state, int max_requests,
           int max_receives, bool has_srq)
      : ObjectHeader(table, kType, owner),
        state_(state),
        requests(*this, static_cast<std::uint32_t>(max_requests)),
        receives(*this, static_cast<std::uint32_t>(max_receives)),
        has_srq_(has_srq) {}
  ~EpQueues() = default;

  void set_posting_state(DAT_EP_STATE to) noexcept { state_.store(to, std::memory_order_release); }
  void await_established_on(const Evd* evd) noexcept {
    awaits_established_on_.store(evd, std::memory_order_release);
  }
  void note_break(const char* reason, const char* detail) noexcept {
    break_detail_.store(detail, std::memory_order_relaxed);
    broken_by_.store(reason, std::memory_order_release);
  }
  void forget_break() noexcept { broken_by_.store(nullptr, std::memory_order_relaxed); }

 private:
  const bool has_srq_;
  std::atomic<const Evd*> awaits_established_on_{nullptr};
  std::atomic<const char*> broken_by_{nullptr};
  std::atomic<const char*> break_detail_{""};
};

}  // namespace udapl::dapl
