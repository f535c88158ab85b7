// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "common/wait_word.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace udapl {

// How long the service thread of a reactor stays away after the application has driven, and the
// timer on which it sleeps meanwhile. The application keeps pushing that timer into the future, so
// the service thread sleeps as long as the application drives again in time, and takes over soon
// after it has stopped.
//
// Pushing the timer costs a system call. It is done when half of the lease is used up, and only
// while the service thread is parked here. The functions are grouped by the threads that may call
// them. Owned by a Reactor.
class Lease {
 public:
  // After a poll that moved little data. Short, because a consumer may go on to spin on memory,
  // where every microsecond of delay counts. It doubles, up to kLongest, each time the service
  // thread has taken over in vain.
  static constexpr auto kShortest = std::chrono::microseconds(30);
  static constexpr auto kLongest = std::chrono::milliseconds(1);
  // Pushing takes 10 us and more in a virtual machine. So the lease also grows while a consumer
  // polls without a break, by this part of the time for which it has polled, to kLongest.
  static constexpr int kPolledPart = 64;
  // By less if it seems to spin on memory between its polls: several times in a row, the service
  // thread took over although the lease was long, and found work. If the lease was short, the
  // consumer may merely have had no processor.
  static constexpr int kPolledPartOfSpinners = 512;
  static constexpr auto kLong = std::chrono::microseconds(60);
  static constexpr auto kBetweenPauses = std::chrono::milliseconds(50);
  static constexpr int kPausesOfSpinners = 3;
  static constexpr auto kSpinnerFor = std::chrono::milliseconds(200);
  // While a consumer takes one item after the other. It comes back for the next one, but what it
  // does with each may take some microseconds.
  static constexpr auto kAfterTakes = std::chrono::microseconds(240);
  // If many pollers are awake, it grows faster: by this for each, within kPushesToGrowMany, but at
  // most to kLongest. The service thread would put all of them to rest, and waking one costs its
  // peer a system call and the driving thread some more: together, about this time.
  static constexpr auto kPerPoller = std::chrono::microseconds(4);
  static constexpr std::uint32_t kPushesToGrowMany = 64;
  // After a wait. It grows to kAfterWaits while a consumer waits again and again, as renewing it
  // costs a system call each time half of it has run down.
  static constexpr auto kAfterWait = std::chrono::milliseconds(1);
  static constexpr auto kAfterWaits = std::chrono::milliseconds(20);
  static constexpr std::uint32_t kWaitsToGrow = 16;  // by kAfterWait
  // A sleeping thread wakes at least this often: the program may have closed its descriptor.
  static constexpr auto kLongestSleep = std::chrono::seconds(5);
  static constexpr auto kMargin = std::chrono::microseconds(100);  // see suspend_at()

  explicit Lease(Fd timer) noexcept : timer_(std::move(timer)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // ---- called by the thread that holds the drive role ------------------------------------------
  // `contended`: other threads have run while the consumer yielded its processor. If they do so
  // after each of its polls, it polls too seldom for a short lease. `pollers`: how many are awake.
  void renew_for_poll(Clock::time_point now, bool contended = false,
                      std::uint32_t pollers = 0) noexcept {
    const std::uint32_t pushes = pushes_.load(std::memory_order_relaxed);
    if (pushes == 0) polled_since_ = now;
    const int part = spins(now) ? kPolledPartOfSpinners : kPolledPart;
    const Clock::duration grown = kShortest + (now - polled_since_) / part;
    const Clock::duration many = pollers * Clock::duration(kPerPoller) *
                                 std::min(pushes, kPushesToGrowMany) / kPushesToGrowMany;
    const Clock::duration usual = std::min(std::max(grown, many), Clock::duration(kLongest));
    const Clock::duration least = contended ? kLongest : usual;
    const Clock::duration length(after_poll_.load(std::memory_order_relaxed));
    long_.store(std::max(length, least) >= kLong || extended(now), std::memory_order_relaxed);
    if (renew(now, std::max(length, least))) pushes_.store(pushes + 1, std::memory_order_relaxed);
  }
  // `timer`: the earliest pending timer. `briefly`: for kAfterWait, because other threads may be
  // waiting for the end of the lease. Returns the current time, as exactly as the lease needs it.
  Clock::time_point renew_after_wait(const Deadline& timer, bool briefly = false) noexcept;
  // For a leader that is going to sleep: when it must wake to call suspend().
  [[nodiscard]] Deadline suspend_at() const noexcept;
  // Postpones the timer by kLongestSleep. The leader renews the lease when it leaves.
  void suspend() noexcept { postpone(std::nullopt); }
  // Likewise, but not beyond `timer`. The timer is not readable afterwards.
  void postpone(const Deadline& timer) noexcept;
  // If the service thread would wake long before `timer`, which is the earliest and was moved, it
  // sleeps longer. Check watches_until() afterwards.
  void follow(const Deadline& timer) noexcept;

  // ---- called by any thread --------------------------------------------------------------------
  // Extends the lease to at least kLongWork from now, even if it is renewed for less meanwhile, or
  // to kLongWorkOfSpinners, as an answer may come in memory. Makes no system call: the service
  // thread sees the extension when it wakes, and goes back to sleep.
  static constexpr auto kLongWork = kLongest;
  static constexpr auto kLongWorkOfSpinners = 2 * kShortest;
  void extend(Clock::time_point now) noexcept;
  // The same for a consumer that takes one item after the other: extends the lease to kAfterTakes
  // from now, until end_takes().
  void extend_for_takes(Clock::time_point now) noexcept {
    const Clock::rep end = (now + kAfterTakes).time_since_epoch().count();
    takes_until_.store(end, std::memory_order_relaxed);
    if (end_.load(std::memory_order_relaxed) < end) end_.store(end, std::memory_order_relaxed);
  }
  // Called when the consumer has found nothing more: the next renewal may end the lease earlier.
  void end_takes() noexcept {
    if (takes_until_.load(std::memory_order_relaxed) != 0)
      takes_until_.store(0, std::memory_order_relaxed);
  }
  // Returns whether one of these extensions lasts.
  [[nodiscard]] bool extended(Clock::time_point now) const noexcept {
    return now.time_since_epoch().count() < std::max(extended_.load(std::memory_order_relaxed),
                                                     takes_until_.load(std::memory_order_relaxed));
  }
  // Ends the lease, for a service thread that is about to park or, with end(), parked.
  void cut() noexcept { end_.store(0, std::memory_order_seq_cst); }
  void end() noexcept {
    cut();
    wake_service_thread();
  }
  [[nodiscard]] bool valid(Clock::time_point now) const noexcept {
    return now.time_since_epoch().count() < end_.load(std::memory_order_relaxed);
  }
  // Returns whether the service thread is parked and would sleep past `when`.
  [[nodiscard]] bool ends_after(Clock::time_point when) const noexcept {
    return parked() && when.time_since_epoch().count() < armed_.load(std::memory_order_relaxed);
  }
  // Returns whether the service thread sleeps here, and so takes over when the lease ends.
  [[nodiscard]] bool parked() const noexcept {
    return parked_.load(std::memory_order_seq_cst) != Parked::kNo;
  }
  // The same; it also watches the other descriptors meanwhile, and wakes no later than `when`.
  [[nodiscard]] bool watches_until(const Deadline& when) const noexcept;
  // Returns whether it is time for the service thread to wake by itself.
  [[nodiscard]] bool due(Clock::time_point now) const noexcept {
    return now.time_since_epoch().count() >= armed_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool watching() const noexcept {
    return parked_.load(std::memory_order_seq_cst) == Parked::kWatching;
  }
  // Readable when the lease has ended.
  [[nodiscard]] int timer() const noexcept { return timer_.get(); }
  // Wakes the service thread if it sleeps here. The wake-up may be lost if the holder of the role
  // renews the lease concurrently; but that thread looks for work before it releases the role.
  void wake_service_thread() noexcept;

  // ---- called by the service thread ------------------------------------------------------------
  // Who takes care of what is not watched during the sleep: the thread that has the lease; a leader
  // or, while the reactor is unattended, the next one.
  enum class Instead : std::uint8_t { kLease, kLeader, kNextLeader };
  // Sleeps until the lease ends or `timer` is due; in place of a leader for kLongestSleep, unless
  // `timer` is due earlier and there are `others`. wake_service_thread() ends the sleep, too.
  // `has_work` is evaluated once that would take effect; if it returns true, park() does not sleep.
  // `others`: a descriptor whose readiness ends the sleep, or -1. Returns true if that descriptor
  // is ready.
  template <class HasWork>
  bool park(Instead instead, const Deadline& timer, int others, HasWork has_work) noexcept {
    const std::uint32_t seen = word_.value();
    const Clock::rep until = begin_park(instead, timer, others >= 0);
    const bool ready = !has_work() && sleep(seen, until, others);
    parked_.store(Parked::kNo, std::memory_order_seq_cst);
    return ready;
  }
  // Called after the service thread had taken over. `nothing`: it has found no work. `was_long`:
  // whether the lease that had ended was at least kLong.
  [[nodiscard]] bool was_long() const noexcept { return long_.load(std::memory_order_relaxed); }
  void after_takeover(bool nothing, bool was_long, Clock::time_point now) noexcept;

 private:
  [[nodiscard]] bool spins(Clock::time_point now) const noexcept {
    return now.time_since_epoch().count() < spins_until_.load(std::memory_order_relaxed);
  }
  void note_pause(Clock::time_point now) noexcept;
  bool renew(Clock::time_point now, Clock::duration length) noexcept;  // true: timer pushed
  void arm(Clock::rep when) noexcept;
  [[nodiscard]] Clock::rep begin_park(Instead instead, const Deadline& timer,
                                      bool watches) noexcept;
  bool sleep(std::uint32_t seen, Clock::rep until, int others) noexcept;

  enum class Parked : std::uint8_t { kNo, kYes, kWatching };

  const Fd timer_;
  std::atomic<Clock::rep> end_{0};
  std::atomic<Clock::rep> extended_{0};     // end_ is not set to an earlier time
  std::atomic<Clock::rep> takes_until_{0};  // likewise; 0: the consumer has found nothing more
  std::atomic<Clock::rep> armed_{0};        // when the timer fires
  std::atomic<Clock::rep> after_poll_{Clock::duration(kShortest).count()};
  std::atomic<std::uint32_t> waits_{0};     // in a row
  std::atomic<std::uint32_t> pushes_{0};    // by polls, in a row
  Clock::time_point polled_since_;          // the first of these; used by the holder of the role
  std::atomic<Clock::rep> spins_until_{0};  // until then the consumer is taken for a spinner
  std::atomic<bool> long_{false};           // the last lease after a poll was
  Clock::time_point paused_{};              // the last takeover that ended such a lease, and how
  int pauses_ = 0;                          // many in a row; used by the service thread
  std::atomic<Parked> parked_{Parked::kNo};
  std::atomic<bool> lost_{false};  // the program has closed the timer
  WaitWord word_;                  // the service thread sleeps on it once lost_
};

}  // namespace udapl
