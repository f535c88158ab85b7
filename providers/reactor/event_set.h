// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/fd.h"
#include "common/wait_word.h"
#include "providers/reactor/drive_role.h"

#include <poll.h>
#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

namespace udapl {

// The epoll set of a reactor, and the eventfd that ends a sleep in it (a kick). Both may be lost: a
// program that turns itself into a daemon closes every open descriptor, including ours. Events are
// then no longer reported, but sleeps still end. Owned by a Reactor. Thread-safe.
class EventSet {
 public:
  static constexpr std::uint64_t kKick = UINT64_MAX;  // the data of the eventfd's event

  // `role`: tells whether the sleeping thread has been woken.
  EventSet(Fd epoll, Fd kick, const DriveRole& role) noexcept
      : epoll_(std::move(epoll)), kick_(std::move(kick)), role_(role) {}
  EventSet(const EventSet&) = delete;
  EventSet& operator=(const EventSet&) = delete;

  // The following functions return false and set errno on failure.
  bool add(int fd, std::uint32_t events, std::uint64_t data) noexcept {
    return control(EPOLL_CTL_ADD, fd, events, data);
  }
  bool modify(int fd, std::uint32_t events, std::uint64_t data) noexcept {
    return control(EPOLL_CTL_MOD, fd, events, data);
  }
  bool remove(int fd) noexcept { return control(EPOLL_CTL_DEL, fd, 0, 0); }
  // Each kick is reported once, and need not be read.
  bool add_kick() noexcept { return add(kick_.get(), EPOLLIN | EPOLLET, kKick); }
  // Removes the eventfd from the set and clears it, so that poll reports the next kick.
  void remove_kick() noexcept {
    remove(kick_.get());
    take_kick();
  }

  // The descriptors, for poll. Where possible use the functions below instead.
  [[nodiscard]] int epoll() const noexcept { return epoll_.get(); }
  [[nodiscard]] int kick_descriptor() const noexcept { return kick_.get(); }

  // Like epoll_wait.
  int wait(epoll_event* events, int max, const Deadline& until) noexcept;
  // Sleeps until there may be an event or a kick, and takes neither. Returns whether there is a
  // kick. The caller takes the kick when it holds the role: before that, a leader may sleep in
  // epoll, whose sleep would not end if another thread had read the kick.
  [[nodiscard]] bool wait_as_guard(const Deadline& until) noexcept;
  // Like wait(), but does not end when a process that was stopped continues. Interrupted only if a
  // signal handler has run or, in the first milliseconds, may have run.
  int wait_long(epoll_event* events, int max, const Deadline& until) noexcept;
  // Like wait_long(), but also ends, with 0, when one of other sets is ready. `sets`: the first
  // element is for this set, the others are the other sets.
  int wait_with(std::span<pollfd> sets, epoll_event* events, int max,
                const Deadline& until) noexcept;
  // epoll_wait without a sleep. REQUIRES: not lost.
  int look(epoll_event* events, int max) noexcept {
    return ::epoll_wait(epoll_.get(), events, max, 0);
  }
  // After a failure of look() or epoll_wait: returns the events that are ready now, -1 with EINTR,
  // or 0 if the descriptors are lost.
  int after_failure(epoll_event* events, int max, int error) noexcept;

  // Ends the sleep of the thread that DriveRole::wake() has marked.
  void kick() noexcept;
  // Reads the eventfd, for a thread to which poll has reported a kick.
  void take_kick() noexcept;

  // ---- the loss of the descriptors -------------------------------------------------------------
  [[nodiscard]] bool lost(std::memory_order order = std::memory_order_acquire) const noexcept {
    return lost_.load(order);
  }
  // Called when a failure has shown that the descriptors are lost.
  void lose(int error) noexcept;
  // Sets the function that the thread which notices the loss calls once. Set it before use.
  void on_lost(Call call) noexcept {
    on_lost_ = call;
    reports_lost_.store(true, std::memory_order_release);
  }

 private:
  bool control(int operation, int fd, std::uint32_t events, std::uint64_t data) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.u64 = data;
    return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }
  int poll(std::span<pollfd> sets, const Deadline& until) noexcept;
  int wait_for_any(const Deadline& until) noexcept;
  int wait_without_descriptors(const Deadline& until) noexcept;
  int wait_without_poll(const Deadline& until) noexcept;  // a short sleep; returns as poll does

  const Fd epoll_;
  const Fd kick_;
  const DriveRole& role_;
  std::atomic<bool> lost_{false};
  WaitWord word_;   // threads sleep on it instead of in epoll once lost_
  Call on_lost_{};  // valid once reports_lost_
  std::atomic<bool> reports_lost_{false};
};

}  // namespace udapl
