// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/event_set.h"

#include <array>
#include <cerrno>
#include <ctime>

#include <poll.h>
#include <unistd.h>

#include "common/errno_text.h"
#include "common/exiting_sleep.h"
#include "common/not_cancelled.h"
#include "common/signal_handlers.h"
#include "common/tracing/trace.h"
#include "providers/reactor/epoll_wait.h"

namespace udapl {

int EventSet::wait(epoll_event* events, int max, const Deadline& until) noexcept {
  if (lost()) [[unlikely]]
    return wait_without_descriptors(until);
  const int count = wait_for_events(epoll_.get(), events, max, until);
  return count >= 0 ? count : after_failure(events, max, errno);
}

// Repeats the call after a failure, because a signal handler of the program may have changed errno
// before it was read.
int EventSet::after_failure(epoll_event* events, int max, int error) noexcept {
  if (error != EINTR) {
    const int count = ::epoll_wait(epoll_.get(), events, max, 0);
    if (count > 0) return count;
    if (count < 0 && errno != EINTR) {
      lose(error);
      return 0;
    }
  }
  errno = EINTR;
  return -1;
}

// Like wait(), but takes no event, and is interrupted only if a signal handler has run. Returns 1
// if there may be an event.
int EventSet::wait_for_any(const Deadline& until) noexcept {
  if (lost()) [[unlikely]]
    return wait_without_descriptors(until);
  pollfd set{};
  return poll({&set, 1}, until);
}

bool EventSet::wait_as_guard(const Deadline& until) noexcept {
  if (lost()) [[unlikely]] {
    wait_without_descriptors(until);
    return false;
  }
  std::array<pollfd, 2> both{{{}, {kick_.get(), POLLIN, 0}}};
  if (poll(both, until) <= 0) return false;
  if ((both[1].revents & POLLNVAL) != 0) lose(EBADF);
  return (both[1].revents & POLLIN) != 0;
}

// Like ppoll; the first of the sets is this one.
int EventSet::poll(std::span<pollfd> sets, const Deadline& until) noexcept {
  sets[0] = {epoll_.get(), POLLIN, 0};
  const timespec left = until ? time_until(*until) : timespec{};
  const int ready =
      sleep_in([&] { return ::ppoll(sets.data(), sets.size(), until ? &left : nullptr, nullptr); });
  if (ready < 0 && !poll_allowed(static_cast<unsigned>(sets.size()))) [[unlikely]]
    return wait_without_poll(until);
  if (ready <= 0 || (sets[0].revents & POLLNVAL) == 0) return ready;
  lose(EBADF);
  return 0;
}

int EventSet::wait_with(std::span<pollfd> sets, epoll_event* events, int max,
                        const Deadline& until) noexcept {
  if (lost()) [[unlikely]]
    return wait_without_descriptors(until);
  const int ready = poll(sets, until);
  return ready <= 0 ? ready : wait(events, max, Clock::time_point());
}

// epoll_wait also fails with EINTR when a process continues that was stopped, as by Ctrl-Z or a
// debugger; a wait must not end then. poll does not fail, but needs a further system call to get
// the events: so it is used only after some milliseconds, when latency no longer matters, or after
// an interruption that cannot come from a signal handler.
int EventSet::wait_long(epoll_event* events, int max, const Deadline& until) noexcept {
  constexpr auto kMoment = std::chrono::milliseconds(5);
  const Clock::time_point moment = Clock::now() + kMoment;
  const bool brief = until && *until <= moment;
  const int count = wait(events, max, brief ? until : moment);
  if (count > 0 || (count == 0 && brief)) return count;
  if (count < 0 && handler_may_have_run()) {
    errno = EINTR;
    return -1;
  }
  const int ready = wait_for_any(until);
  return ready <= 0 ? ready : wait(events, max, Clock::time_point());
}

// For a sandbox that allows poll no descriptors (RLIMIT_NOFILE). A kick does not end this sleep.
int EventSet::wait_without_poll(const Deadline& until) noexcept {
  constexpr auto kNap = std::chrono::milliseconds(5);
  const Clock::time_point nap = Clock::now() + kNap;
  const timespec left = time_until(until && *until < nap ? *until : nap);
  return ::nanosleep(&left, nullptr) == 0 ? 1 : -1;
}

// A wake-up that comes before the role is read has changed the role; a later one changes the word.
int EventSet::wait_without_descriptors(const Deadline& until) noexcept {
  const std::uint32_t seen = word_.value();
  if (role_.woken()) return 0;
  if (word_.wait(seen, until) != WaitResult::kInterrupted) return 0;
  errno = EINTR;
  return -1;
}

void EventSet::kick() noexcept {
  const NotCancelled scope;
  const std::uint64_t one = 1;
  const auto kick_fails = [&] {
    return ::write(kick_.get(), &one, sizeof one) < 0 && errno != EAGAIN;
  };
  // Twice, because a signal handler of the program may have changed errno.
  if (!lost() && kick_fails() && kick_fails()) [[unlikely]]
    lose(errno);
  if (lost()) [[unlikely]]
    word_.signal();
}

void EventSet::take_kick() noexcept {
  std::uint64_t kicks = 0;
  [[maybe_unused]] const ssize_t got = ::read(kick_.get(), &kicks, sizeof kicks);
}

void EventSet::lose(int error) noexcept {
  if (lost_.exchange(true, std::memory_order_acq_rel)) return;
  UDAPL_TRACE(kError,
              "the program has closed descriptors of the provider; all connections are lost: %s",
              ErrnoText(error).c_str());
  if (reports_lost_.load(std::memory_order_acquire)) on_lost_.function(on_lost_.object);
}

}  // namespace udapl
