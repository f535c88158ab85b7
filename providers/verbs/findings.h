// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <optional>

namespace udapl::verbs {

// What was found out about the connection of a queue since its set-up began. Polls record failed
// work and the completion of the marker, for the Connection; the Connection records the loss of the
// peer, for polls.
//
// Thread-safe. Owned by a Queue.
class Findings {
 public:
  // Called when a set-up begins.
  void clear() noexcept {
    failed_status_.store(kNoFailure, std::memory_order_relaxed);
    drained_.store(false, std::memory_order_relaxed);
    lost_.store(false, std::memory_order_relaxed);
  }

  // ---- the first failure -----------------------------------------------------------------------
  // Returns whether this is the first failure.
  bool add_failure(ibv_wc_status status) noexcept {
    unsigned none = kNoFailure;
    return failed_status_.compare_exchange_strong(none, status, std::memory_order_acq_rel);
  }
  [[nodiscard]] std::optional<ibv_wc_status> failure() const noexcept {
    const unsigned status = failed_status_.load(std::memory_order_acquire);
    if (status == kNoFailure) return std::nullopt;
    return static_cast<ibv_wc_status>(status);
  }
  [[nodiscard]] bool has_failure() const noexcept {
    return failed_status_.load(std::memory_order_relaxed) != kNoFailure;
  }

  // ---- the marker of a graceful disconnect (docs/adr/0010) -------------------------------------
  void set_drained() noexcept { drained_.store(true, std::memory_order_release); }
  [[nodiscard]] bool drained() const noexcept { return drained_.load(std::memory_order_acquire); }

  // ---- the loss of the peer --------------------------------------------------------------------
  // Called when the connection is lost although the device has not given up the peer. `peer`: the
  // peer is lost, which becomes the status of the oldest request.
  void set_lost(bool peer) noexcept { lost_.store(peer, std::memory_order_release); }
  // Returns true, once, for the oldest of the requests that were outstanding when the peer was
  // lost. Called for flushed requests, in order.
  [[nodiscard]] bool take_loss() noexcept {
    return lost_.load(std::memory_order_acquire) && lost_.exchange(false);
  }

 private:
  static constexpr unsigned kNoFailure = ~0U;
  std::atomic<unsigned> failed_status_{kNoFailure};  // an ibv_wc_status
  std::atomic<bool> drained_{false};                 // the marker has completed
  std::atomic<bool> lost_{false};  // the peer is lost, and no request has reported that yet
};

}  // namespace udapl::verbs
