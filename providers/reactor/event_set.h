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

// The epoll set of a reactor, and the eventfd that ends a sleep in it. Both may be lost: a program
// that turns itself into a daemon closes every open descriptor, including ours. Then nothing is
// reported any more, but sleeps still end. Owned by a Reactor. Thread-safe.
class EventSet {
 public:
  static constexpr std::uint64_t kKick = UINT64_MAX;  // the data of the eventfd's event

  // `role`: of the thread that sleeps.
  EventSet(Fd epoll, Fd kick, const DriveRole& role) noexcept
      : epoll_(std::move(epoll)), kick_(std::move(kick)), role_(role) {}
  EventSet(const EventSet&) = delete;
  EventSet& operator=(const EventSet&) = delete;

  // These return false and set errno.
  bool add(int fd, std::uint32_t events, std::uint64_t data) noexcept {
    return control(EPOLL_CTL_ADD, fd, events, data);
  }
  bool modify(int fd, std::uint32_t events, std::uint64_t data) noexcept {
    return control(EPOLL_CTL_MOD, fd, events, data);
  }
  bool remove(int fd) noexcept { return control(EPOLL_CTL_DEL, fd, 0, 0); }
  // Each kick is reported once, and need not be read.
  bool add_kick() noexcept { return add(kick_.get(), EPOLLIN | EPOLLET, kKick); }
  // Afterwards poll reports the next kick.
  void remove_kick() noexcept {
    remove(kick_.get());
    take_kick();
  }

  // For poll: prefer the functions below.
  [[nodiscard]] int epoll() const noexcept { return epoll_.get(); }
  [[nodiscard]] int kick_descriptor() const noexcept { return kick_.get(); }

  // Like epoll_wait.
  int wait(epoll_event* events, int max, const Deadline& until) noexcept;
  // Sleeps until there may be an event or a kick, and takes neither. Returns whether there is a
  // kick: the caller takes it once it holds the role, since until then a leader may sleep in epoll,
  // where a kick that another thread has read does not end the sleep.
  [[nodiscard]] bool wait_as_guard(const Deadline& until) noexcept;
  // Like wait(), but not interrupted unless a signal handler ran, or in the first moment may have.
  int wait_long(epoll_event* events, int max, const Deadline& until) noexcept;
  // The same, but also ends, with 0, when one of other sets is ready. `sets`: theirs, behind a
  // place for this one.
  int wait_with(std::span<pollfd> sets, epoll_event* events, int max,
                const Deadline& until) noexcept;
  // epoll_wait without a sleep. REQUIRES: not lost.
  int look(epoll_event* events, int max) noexcept {
    return ::epoll_wait(epoll_.get(), events, max, 0);
  }
  // After a failure of look(), or of epoll_wait: the events there are now, -1 with EINTR, or 0 if
  // the descriptors are lost.
  int after_failure(epoll_event* events, int max, int error) noexcept;

  // Ends the sleep of the thread that DriveRole::wake() has marked.
  void kick() noexcept;
  // For a thread that got a kick by poll.
  void take_kick() noexcept;

  // ---- the loss of the descriptors -------------------------------------------------------------
  [[nodiscard]] bool lost(std::memory_order order = std::memory_order_acquire) const noexcept {
    return lost_.load(order);
  }
  // A failure has shown that they are lost.
  void lose(int error) noexcept;
  // Sets the function to be called once, by the thread that notices. Set it before use.
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
  int wait_without_poll(const Deadline& until) noexcept;  // for a moment, like poll

  const Fd epoll_;
  const Fd kick_;
  const DriveRole& role_;
  std::atomic<bool> lost_{false};
  WaitWord word_;   // replaces epoll to sleep on once lost_
  Call on_lost_{};  // valid once reports_lost_
  std::atomic<bool> reports_lost_{false};
};

}  // namespace udapl
