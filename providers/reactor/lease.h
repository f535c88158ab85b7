// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "common/wait_word.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace udapl {

// The lease is the time after the application has driven in which the service thread of a reactor
// does not drive, because the application is expected to drive again. Meanwhile the service thread
// sleeps on a timer (it is parked), which the application keeps postponing: so the service thread
// takes over soon after the application has stopped.
//
// To postpone (push) the timer costs a system call. It is done when half of the lease is used up,
// and only while the service thread is parked here. The functions are grouped by the threads that
// may call them. Owned by a Reactor.
class Lease {
 public:
  // The lease after a poll that moved little data. Short, because a consumer may next spin on
  // memory, where every microsecond of delay counts. It doubles, up to kLongest, each time the
  // service thread has taken over and found no work.
  static constexpr auto kShortest = std::chrono::microseconds(30);
  static constexpr auto kLongest = std::chrono::milliseconds(1);
  // To push the timer takes 10 us and more in a virtual machine. So the lease also grows while a
  // consumer polls without a break: by 1/kPolledPart of the time for which it has polled, up to
  // kLongest.
  static constexpr int kPolledPart = 64;
  // The lease grows more slowly if the consumer seems to spin on memory between its polls: several
  // times in a row, the service thread has taken over after a long lease and found work. After a
  // short lease that means nothing, since the consumer may merely have had no processor.
  static constexpr int kPolledPartOfSpinners = 512;
  static constexpr auto kLong = std::chrono::microseconds(60);
  static constexpr auto kBetweenPauses = std::chrono::milliseconds(50);
  static constexpr int kPausesOfSpinners = 3;
  static constexpr auto kSpinnerFor = std::chrono::milliseconds(200);
  // The lease while a consumer takes one item after the other: it will return for the next one, but
  // may take some microseconds to process each.
  static constexpr auto kAfterTakes = std::chrono::microseconds(240);
  // If many pollers are awake, the lease after a poll grows faster: within kPushesToGrowMany
  // pushes, by this time for each poller, up to kLongest. The service thread would put all pollers
  // to rest, and to wake one later takes about this time, in system calls of both sides.
  static constexpr auto kPerPoller = std::chrono::microseconds(4);
  static constexpr std::uint32_t kPushesToGrowMany = 64;
  // The lease after a wait. It grows to kAfterWaits while a consumer waits repeatedly, because each
  // renewal costs a system call.
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
  // `contended`: other threads have run while the consumer yielded its processor. If they run after
  // each of its polls, it polls too seldom for a short lease. `pollers`: how many are awake.
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
  // `timer`: the earliest pending timer. `briefly`: the lease is kAfterWait, because other threads
  // may be waiting for its end. Returns the current time, as exact as the lease needs it.
  Clock::time_point renew_after_wait(const Deadline& timer, bool briefly = false) noexcept;
  // For a leader that is about to sleep: the time at which it must wake to call suspend().
  [[nodiscard]] Deadline suspend_at() const noexcept;
  // Postpones the timer by kLongestSleep. The leader renews the lease when it leaves.
  void suspend() noexcept { postpone(std::nullopt); }
  // Like suspend(), but not beyond `timer`. The timer descriptor is not readable afterwards.
  void postpone(const Deadline& timer) noexcept;
  // `timer` is the earliest timer and may have been postponed: if the service thread would wake
  // long before it, makes it sleep until then. Check watches_until() afterwards.
  void follow(const Deadline& timer) noexcept;

  // ---- called by any thread --------------------------------------------------------------------
  // Extends the lease to at least kLongWork from now, even if it is renewed for less meanwhile; or
  // to kLongWorkOfSpinners if the consumer spins on memory, where an answer may arrive. Makes no
  // system call: the service thread sees the extension when it wakes, and sleeps again.
  static constexpr auto kLongWork = kLongest;
  static constexpr auto kLongWorkOfSpinners = 2 * kShortest;
  void extend(Clock::time_point now) noexcept;
  // For a consumer that takes one item after the other: likewise extends the lease to kAfterTakes
  // from now, until end_takes().
  void extend_for_takes(Clock::time_point now) noexcept {
    const Clock::rep end = (now + kAfterTakes).time_since_epoch().count();
    takes_until_.store(end, std::memory_order_relaxed);
    if (end_.load(std::memory_order_relaxed) < end) end_.store(end, std::memory_order_relaxed);
  }
  // Called when the consumer has found no further item: the next renewal may set an earlier end.
  void end_takes() noexcept {
    if (takes_until_.load(std::memory_order_relaxed) != 0)
      takes_until_.store(0, std::memory_order_relaxed);
  }
  // Returns whether one of these extensions lasts.
  [[nodiscard]] bool extended(Clock::time_point now) const noexcept {
    return now.time_since_epoch().count() < std::max(extended_.load(std::memory_order_relaxed),
                                                     takes_until_.load(std::memory_order_relaxed));
  }
  // Ends the lease: cut() if the service thread is not parked yet; end() also wakes a parked one.
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
  // Returns whether the service thread is parked, and so takes over when the lease ends.
  [[nodiscard]] bool parked() const noexcept {
    return parked_.load(std::memory_order_seq_cst) != Parked::kNo;
  }
  // Likewise, and also watches the other descriptors and wakes no later than `when`.
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
  // Wakes the service thread if it is parked. The wake-up may be lost if the holder of the role
  // renews the lease concurrently; but that thread checks for work before it releases the role.
  void wake_service_thread() noexcept;

  // ---- called by the service thread ------------------------------------------------------------
  // Which thread handles the events that the service thread does not watch while it sleeps: the one
  // that has the lease, the leader or, while the reactor is unattended, the next leader.
  enum class Instead : std::uint8_t { kLease, kLeader, kNextLeader };
  // Sleeps until the lease ends or `timer` is due. With a leader, sleeps for kLongestSleep, unless
  // `timer` is due earlier and there is `others`, a descriptor (or -1) whose readiness also ends
  // the sleep. So does wake_service_thread(). `has_work` is evaluated when a wake-up can no longer
  // be lost; if it returns true, park() does not sleep. Returns true if `others` is ready.
  template <class HasWork>
  bool park(Instead instead, const Deadline& timer, int others, HasWork has_work) noexcept {
    const std::uint32_t seen = word_.value();
    const Clock::rep until = begin_park(instead, timer, others >= 0);
    const bool ready = !has_work() && sleep(seen, until, others);
    parked_.store(Parked::kNo, std::memory_order_seq_cst);
    return ready;
  }
  // Called when the service thread, which had taken over, stops driving. `nothing`: it has found no
  // work. `was_long`: whether the lease that had ended was at least kLong.
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
  std::atomic<Clock::rep> extended_{0};     // renewals set end_ to no earlier time than this
  std::atomic<Clock::rep> takes_until_{0};  // nor than this; 0: the consumer found nothing more
  std::atomic<Clock::rep> armed_{0};        // when the timer fires
  std::atomic<Clock::rep> after_poll_{Clock::duration(kShortest).count()};
  std::atomic<std::uint32_t> waits_{0};     // in a row
  std::atomic<std::uint32_t> pushes_{0};    // by polls, in a row
  Clock::time_point polled_since_;          // the first of these; used by the holder of the role
  std::atomic<Clock::rep> spins_until_{0};  // until then the consumer counts as spinning on memory
  std::atomic<bool> long_{false};           // the last lease after a poll was at least kLong
  Clock::time_point paused_{};  // the last takeover after a long lease; used by the service thread
  int pauses_ = 0;              // such takeovers in a row; used by the service thread
  std::atomic<Parked> parked_{Parked::kNo};
  std::atomic<bool> lost_{false};  // the program has closed the timer
  WaitWord word_;                  // the service thread sleeps on it once lost_
};

}  // namespace udapl
