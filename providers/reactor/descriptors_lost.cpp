// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: after the loss of its descriptors. A program that turns itself into a daemon closes
// every open descriptor, including ours; a thread that waits in epoll would then spin. Timers and
// deferred calls keep working without them.
#include <cerrno>
#include <ctime>

#include <poll.h>

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/reactor/epoll_wait.h"
#include "providers/reactor/reactor.h"

namespace udapl {

int Reactor::wait(epoll_event* events, int max, const Deadline& until) noexcept {
  if (lost_.load(std::memory_order_acquire)) [[unlikely]]
    return wait_without_descriptors(until);
  const int count = wait_for_events(epoll_.get(), events, max, until);
  return count >= 0 ? count : after_failure(events, max, errno);
}

// A failure says what it means only if it repeats itself: a signal handler of the program's that
// ran before errno was read may have changed it.
int Reactor::after_failure(epoll_event* events, int max, int error) noexcept {
  if (error != EINTR) {
    const int count = ::epoll_wait(epoll_.get(), events, max, 0);
    if (count > 0) return count;
    if (count < 0 && errno != EINTR) {
      lose_descriptors(error);
      return 0;
    }
  }
  errno = EINTR;
  return -1;
}

int Reactor::wait_for_any(const Deadline& until) noexcept {
  if (lost_.load(std::memory_order_acquire)) [[unlikely]]
    return wait_without_descriptors(until);
  pollfd set{epoll_.get(), POLLIN, 0};
  const timespec left = until ? time_until(*until) : timespec{};
  const int ready = ::ppoll(&set, 1, until ? &left : nullptr, nullptr);
  if (ready < 0 && !poll_allowed(1)) [[unlikely]]
    return wait_without_poll(until);
  if (ready <= 0 || (set.revents & POLLNVAL) == 0) return ready;
  lose_descriptors(EBADF);
  return 0;
}

// In a sandbox that allows no descriptors (RLIMIT_NOFILE). A kick does not end the nap.
int Reactor::wait_without_poll(const Deadline& until) noexcept {
  constexpr auto kNap = std::chrono::milliseconds(5);
  const Clock::time_point nap = Clock::now() + kNap;
  const timespec left = time_until(until && *until < nap ? *until : nap);
  return ::nanosleep(&left, nullptr) == 0 ? 1 : -1;
}

// A wake-up before the role is read has changed the role; a later one changes the word.
int Reactor::wait_without_descriptors(const Deadline& until) noexcept {
  const std::uint32_t seen = lost_word_.value();
  const std::uint32_t role = role_.load(std::memory_order_seq_cst);
  if ((role & kState) == kActive || (role & kKicked) != 0) return 0;
  if (lost_word_.wait(seen, until) != WaitResult::kInterrupted) return 0;
  errno = EINTR;
  return -1;
}

void Reactor::lose_descriptors(int error) noexcept {
  if (lost_.exchange(true, std::memory_order_acq_rel)) return;
  UDAPL_TRACE(kError,
              "the program has closed descriptors of the provider; all connections are lost: %s",
              ErrnoText(error).c_str());
  if (reports_lost_.load(std::memory_order_acquire)) on_lost_.function(on_lost_.object);
}

}  // namespace udapl
