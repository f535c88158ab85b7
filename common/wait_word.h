// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace udapl {

using Clock =
    std::chrono::steady_clock;  // the monotonic clock: wall-clock changes never move a deadline
using Deadline = std::optional<Clock::time_point>;  // nullopt: never

// Converts a DAT timeout (microseconds, DAT_TIMEOUT_INFINITE = never) that starts now.
[[nodiscard]] Deadline deadline_after(std::uint32_t timeout_us) noexcept;
[[nodiscard]] inline bool expired(const Deadline& deadline) noexcept {
  return deadline && Clock::now() >= *deadline;
}

// kSleptLong: nothing has happened for some seconds. The caller waits again, and may first check
// for conditions that cause no wake-up.
enum class WaitResult { kChanged, kTimedOut, kInterrupted, kSleptLong };

// A number that threads can sleep on until it changes (a futex). Waiter: read value(), check the
// state that matters, then wait(value): a change in between makes wait return at once, so no
// wake-up is lost. Waker: change the state, then signal(). Any thread may call anything; signal()
// makes a system call only if a thread sleeps.
class WaitWord {
 public:
  // Implemented by an object whose thread sleeps on something else (a transport's epoll) while it
  // waits for the word.
  class Waker {
   public:
    // Called by signal(), in any thread and with any lock held; possibly also shortly after
    // set_waker(nullptr).
    virtual void wake() noexcept = 0;

   protected:
    ~Waker() = default;
  };

  [[nodiscard]] std::uint32_t value() const noexcept {
    // Pairs with signal(). seq_cst: a driving thread reads it after announcing that it will sleep.
    return word_.load(std::memory_order_seq_cst);
  }
  void signal() noexcept { const Wakeup now = change(); }

  // The second half of signal(): its destructor wakes the threads that slept when the word changed.
  // This allows to change the word under a lock that these threads acquire first, and to wake them
  // after it is released. The word may have been destroyed by then: only its address is used.
  class [[nodiscard]] Wakeup {
   public:
    Wakeup() = default;
    ~Wakeup() {
      if (address_ != nullptr) wake();
    }
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;
    Wakeup& operator=(Wakeup&& other) noexcept {
      std::swap(address_, other.address_);
      return *this;
    }

   private:
    friend class WaitWord;
    explicit Wakeup(const std::atomic<std::uint32_t>* address) noexcept : address_(address) {}
    void wake() const noexcept;

    const std::atomic<std::uint32_t>* address_ = nullptr;  // the futex; null: no thread sleeps
  };
  // The first half: changes the word and calls the waker.
  Wakeup change() noexcept;

  // Sleeps until the word differs from `seen`, the deadline passes or a signal handler has run. May
  // also return kChanged spuriously: callers loop on their own condition with the same absolute
  // deadline.
  WaitResult wait(std::uint32_t seen, const Deadline& deadline) noexcept;

  // Makes signal() also call `waker` (null: none); there is one waker at a time. The caller sets
  // it, then compares value() once more, then sleeps. The waker must stay valid as long as the word
  // may be signalled.
  void set_waker(Waker* waker) noexcept { waker_.store(waker, std::memory_order_seq_cst); }
  // Like set_waker(), unless there is another waker: then returns false. end_waker() removes only
  // this waker.
  [[nodiscard]] bool try_waker(Waker& waker) noexcept {
    Waker* before = nullptr;
    return waker_.compare_exchange_strong(before, &waker, std::memory_order_seq_cst) ||
           before == &waker;
  }
  void end_waker(Waker& waker) noexcept {
    Waker* before = &waker;
    waker_.compare_exchange_strong(before, nullptr, std::memory_order_seq_cst);
  }

 private:
  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<Waker*> waker_{nullptr};
};

}  // namespace udapl
