// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>

namespace udapl::transport {

// Between the consumer's thread, which takes completions off a CQ at once and without a lock, and a
// transport that now and then has to keep it away (docs/adr/0019). The consumer announces himself,
// looks at the gate, and works if it is open; otherwise he withdraws and calls Cq::poll, which
// takes a lock of the transport's. The transport closes the gate, lets the kernel order that
// against the memory of all threads (membarrier), and waits until nobody is announced: so the
// consumer needs no fence.
//
// One consumer at a time; any thread for the rest.
class PollGate {
 public:
  PollGate() = default;
  explicit PollGate(std::uint32_t bits) noexcept : bits_(bits) {}

  // Bits of the gate. The lower ones belong to the core.
  static constexpr std::uint32_t kDiverted = 1U << 31;

  // ---- the consumer ----------------------------------------------------------------------------

  // `what` is his to choose, not null, and given back by announced().
  void announce(void* what) noexcept {
    taker_.store(what, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // keep_out()'s barrier does the rest
  }
  [[nodiscard]] bool open() const noexcept { return bits_.load(std::memory_order_acquire) == 0; }
  [[nodiscard]] void* announced() const noexcept { return taker_.load(std::memory_order_relaxed); }
  // He is done. release: whoever waits for that sees what he did.
  void withdraw() noexcept { taker_.store(nullptr, std::memory_order_release); }

  // What he has taken off the CQ and still keeps, so that one look tells him whether to poll. His
  // own, also while he is not announced.
  [[nodiscard]] std::int32_t& stock() noexcept { return stock_; }
  [[nodiscard]] std::int32_t stock() const noexcept { return stock_; }

  // ---- bits ------------------------------------------------------------------------------------

  [[nodiscard]] std::uint32_t bits() const noexcept {
    return bits_.load(std::memory_order_acquire);
  }
  void set(std::uint32_t bits) noexcept { bits_.fetch_or(bits, std::memory_order_release); }
  void clear(std::uint32_t bits) noexcept { bits_.fetch_and(~bits, std::memory_order_release); }

  // ---- the transport ---------------------------------------------------------------------------

  // Is somebody announced? Those who come now have seen what the caller wrote before a process-wide
  // barrier.
  [[nodiscard]] bool occupied() const noexcept {
    const void* const taker = taker_.load(std::memory_order_acquire);
    return taker != nullptr && taker != &kNobody;
  }
  // True: nobody has announced himself since the last call. One caller at a time.
  [[nodiscard]] bool unused() noexcept {
    void* taker = taker_.load(std::memory_order_relaxed);
    if (taker == &kNobody) return true;
    if (taker == nullptr)
      taker_.compare_exchange_strong(taker, &kNobody, std::memory_order_relaxed);
    return false;
  }

 private:
  static inline char kNobody = 0;  // its address

  std::atomic<void*> taker_{nullptr};
  std::atomic<std::uint32_t> bits_{0};
  std::int32_t stock_ = 0;
};

}  // namespace udapl::transport
