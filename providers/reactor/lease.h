// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "common/wait_word.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace udapl {

// For how long the service thread of a reactor stays away after the application has driven, and
// where it sleeps meanwhile: on a timer that the application pushes ahead of itself. So the service
// thread sleeps for as long as the application comes back in time, and takes over soon after it
// has stopped.
//
// Pushing costs a system call: that is done when half of the lease is used up, and only while the
// service thread sleeps here. Each function says who may call it. Owned by a Reactor.
class Lease {
 public:
  // After a poll that moved little: of a consumer that goes on to look at memory every microsecond
  // counts. It grows when the application comes back each time just after the service thread has
  // taken over.
  static constexpr auto kShortest = std::chrono::microseconds(30);
  static constexpr auto kLongest = std::chrono::milliseconds(1);
  // Pushing takes 10 us and more in a virtual machine, so the lease grows, too, while a consumer
  // polls without a break: to 60 us in 4 ms, to kAfterPolls in some 110, a small part of the time
  // for which it has.
  static constexpr auto kAfterPolls = std::chrono::microseconds(240);
  static constexpr std::uint32_t kPushesToGrow = 256;  // by kShortest
  // After a wait. It grows while a consumer waits again and again, to kAfterWaits: renewing it
  // costs a system call each time that half of it is over.
  static constexpr auto kAfterWait = std::chrono::milliseconds(1);
  static constexpr auto kAfterWaits = std::chrono::milliseconds(20);
  static constexpr std::uint32_t kWaitsToGrow = 16;  // by kAfterWait
  // What sleeps looks around that often, also if it is not needed: its descriptor may be gone.
  static constexpr auto kLongestSleep = std::chrono::seconds(5);
  // A leader that sleeps for so long puts the timer off just before it fires.
  static constexpr auto kMargin = std::chrono::microseconds(100);

  explicit Lease(Fd timer) noexcept : timer_(std::move(timer)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // ---- by the thread that holds the drive role -------------------------------------------------
  void renew_for_poll(Clock::time_point now) noexcept {
    const std::uint32_t pushes = pushes_.load(std::memory_order_relaxed);
    const Clock::duration grown = (1 + pushes / kPushesToGrow) * Clock::duration(kShortest);
    const Clock::duration length(after_poll_.load(std::memory_order_relaxed));
    if (renew(now, std::max(length, std::min(grown, Clock::duration(kAfterPolls)))))
      pushes_.store(pushes + 1, std::memory_order_relaxed);
  }
  // `timer`: the first that is to be fired. The time, as exactly as the lease needs it.
  Clock::time_point renew_after_wait(const Deadline& timer) noexcept;
  // A leader is going to sleep: when it has to be awake to call suspend(), if it sleeps so long.
  [[nodiscard]] Deadline suspend_at() const noexcept;
  // The timer is put off, by kLongestSleep. The leader renews the lease when it leaves.
  void suspend() noexcept;

  // ---- by any thread ---------------------------------------------------------------------------
  // The lease lasts for kLongWork at least, also if it is renewed for less. Without a system call:
  // the service thread finds that out when it wakes, and goes back to sleep.
  static constexpr auto kLongWork = kLongest;
  void extend(Clock::time_point now) noexcept {
    const Clock::rep end = (now + kLongWork).time_since_epoch().count();
    extended_.store(end, std::memory_order_relaxed);
    if (end_.load(std::memory_order_relaxed) < end) end_.store(end, std::memory_order_relaxed);
  }
  [[nodiscard]] bool valid(Clock::time_point now) const noexcept {
    return now.time_since_epoch().count() < end_.load(std::memory_order_relaxed);
  }
  // Is it going to sleep here for too long to be there at that time?
  [[nodiscard]] bool ends_after(Clock::time_point when) const noexcept {
    return parked() && when.time_since_epoch().count() < armed_.load(std::memory_order_relaxed);
  }
  // Does the service thread sleep here, so that it comes when the lease ends?
  [[nodiscard]] bool parked() const noexcept {
    return parked_.load(std::memory_order_seq_cst) != Parked::kNo;
  }
  // Does it sleep here, look after the other descriptors meanwhile, and come before that time?
  [[nodiscard]] bool watches_until(const Deadline& when) const noexcept {
    return watching() &&
           (!when || when->time_since_epoch().count() >= armed_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool watching() const noexcept {
    return parked_.load(std::memory_order_seq_cst) == Parked::kWatching;
  }
  // Readable when the lease has ended.
  [[nodiscard]] int timer() const noexcept { return timer_.get(); }
  // Wakes the service thread if it sleeps here. Lost if a holder of the role renews the lease just
  // now: that thread looks for work before it gives the role up.
  void summon() noexcept;

  // ---- by the service thread -------------------------------------------------------------------
  // Sleeps until the lease ends or `timer` is due, for kLongestSleep if `leader`, or until
  // summon(). `has_news` is asked when summon() would be heard: true, and it does not sleep.
  // `others`: a descriptor that wakes it, too, or -1. True: that is ready.
  template <class News>
  bool park(bool leader, const Deadline& timer, int others, News has_news) noexcept {
    const std::uint32_t seen = word_.value();
    const Clock::rep until = begin_park(leader, timer, others >= 0);
    const bool ready = !has_news() && sleep(seen, until, others);
    parked_.store(Parked::kNo, std::memory_order_seq_cst);
    return ready;
  }
  // It had taken over: for nothing, as the application came back before anything happened, or not.
  void taken_over_for(bool nothing) noexcept;

 private:
  bool renew(Clock::time_point now, Clock::duration length) noexcept;  // true: pushed the timer
  void arm(Clock::rep when) noexcept;
  [[nodiscard]] Clock::rep begin_park(bool leader, const Deadline& timer, bool watches) noexcept;
  bool sleep(std::uint32_t seen, Clock::rep until, int others) noexcept;

  enum class Parked : std::uint8_t { kNo, kYes, kWatching };

  const Fd timer_;
  std::atomic<Clock::rep> end_{0};
  std::atomic<Clock::rep> extended_{0};  // end_ is not before
  std::atomic<Clock::rep> armed_{0};     // when the timer fires
  std::atomic<Clock::rep> after_poll_{Clock::duration(kShortest).count()};
  std::atomic<std::uint32_t> waits_{0};   // in a row
  std::atomic<std::uint32_t> pushes_{0};  // by polls, in a row
  std::atomic<Parked> parked_{Parked::kNo};
  std::atomic<bool> lost_{false};  // the program has closed the timer
  WaitWord word_;                  // what the service thread sleeps on then
};

}  // namespace udapl
