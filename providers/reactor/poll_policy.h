// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"
#include "providers/reactor/tuning.h"

#include <atomic>
#include <cstdint>

namespace udapl {

// Decides which of a consumer's polls make a turn, and which yield the processor. Counts polls in a
// row that found nothing. Owned by a Reactor. Used by polling threads: if two poll at the same
// time, increments may get lost.
class PollPolicy {
 public:
  // Counts a poll and returns its number, from 1 on.
  std::uint32_t count() noexcept {
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed) + 1;
    polls_.store(polls, std::memory_order_relaxed);
    return polls;
  }
  [[nodiscard]] std::uint32_t polls() const noexcept {
    return polls_.load(std::memory_order_relaxed);
  }
  // Returns whether this poll looks for input. Also true if turn_at_ is far ahead, as another
  // thread may have set it for a poll that had begun before polls_ was reset.
  [[nodiscard]] bool due(std::uint32_t poll) const noexcept {
    return turn_at_.load(std::memory_order_relaxed) - poll - 1 >= tuning::kStride;
  }

  // One of these is called at the end of a poll that was due. `eager`: the poll was so cheap that
  // the next one is due as well.
  void found() noexcept {
    polls_.store(0, std::memory_order_relaxed);
    turn_at_.store(0, std::memory_order_relaxed);
    yield_at_.store(contended() ? patience() : tuning::kUncontendedStride,
                    std::memory_order_relaxed);
  }
  void found_nothing(std::uint32_t poll, bool eager) noexcept {
    eager |= poll < tuning::kEagerPolls;
    turn_at_.store(eager ? poll + 1 : (poll / tuning::kStride + 1) * tuning::kStride,
                   std::memory_order_relaxed);
  }

  // Returns whether a poll that found nothing shall yield. Also true if yield_at_ is far ahead.
  [[nodiscard]] bool yield_due(std::uint32_t poll) const noexcept {
    return yield_at_.load(std::memory_order_relaxed) - poll - 1 >= tuning::kUncontendedStride;
  }
  void yield(std::uint32_t poll) noexcept;
  // Whether other threads ran during a yield, and for how long.
  enum class Others : std::uint8_t { kNone, kBriefly, kLong };
  // The part of yield() after the system call. Determines the next yield, which is due later if no
  // other thread was ready to run.
  void yielded(std::uint32_t poll, Others ran) noexcept {
    last_yield_.store(ran, std::memory_order_relaxed);
    contended_.store(ran != Others::kNone, std::memory_order_relaxed);
    yield_at_.store(poll + (ran == Others::kNone      ? tuning::kUncontendedStride
                            : ran == Others::kBriefly ? tuning::kContendedStride
                                                      : tuning::kLongYieldStride),
                    std::memory_order_relaxed);
  }
  // Returns whether others ran when the application yielded last.
  [[nodiscard]] bool contended() const noexcept {
    return contended_.load(std::memory_order_relaxed);
  }

  // Called when a poll has found a leader asleep. Returns whether so many polls in a row have that
  // the leader shall make way; unblocked() ends the row.
  [[nodiscard]] bool blocked() noexcept {
    const std::uint32_t polls = blocked_.load(std::memory_order_relaxed) + 1;
    const bool many = polls >= tuning::kBlockedPolls;
    blocked_.store(many ? 0 : polls, std::memory_order_relaxed);
    return many;
  }
  void unblocked() noexcept { blocked_.store(0, std::memory_order_relaxed); }

  // Called when the consumer has taken several items without a poll. Returns the time of the
  // previous call.
  Clock::time_point took_many(Clock::time_point now) noexcept {
    among_takes_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return Clock::time_point(Clock::duration(
        took_many_at_.exchange(now.time_since_epoch().count(), std::memory_order_relaxed)));
  }
  // Returns whether this is the first poll after a call of took_many().
  [[nodiscard]] bool among_takes(std::uint32_t poll) const noexcept {
    return poll == among_takes_.load(std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] std::uint32_t patience() noexcept;
  [[nodiscard]] bool check_due() noexcept;
  [[nodiscard]] bool others_ran() noexcept;

  std::atomic<std::uint32_t> polls_{0};    // in a row that found nothing
  std::atomic<std::uint32_t> turn_at_{0};  // the poll that is due next
  std::atomic<std::uint32_t> yield_at_{tuning::kUncontendedStride};
  std::atomic<std::uint32_t> blocked_{0};  // polls in a row that found a leader asleep
  std::atomic<bool> contended_{false};
  std::atomic<Others> last_yield_{Others::kNone};  // since the last find
  std::atomic<std::uint32_t> after_yields_{0};     // finds in a row that came after a brief yield
  std::atomic<std::uint32_t> unchecked_{0};        // yields since others_ran()
  std::atomic<std::uint32_t> among_takes_{0};
  std::atomic<long> switches_{0};  // context switches of the thread that yielded last
  std::atomic<Clock::rep> took_many_at_{0};
};

}  // namespace udapl
