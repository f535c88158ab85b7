// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/epoll_wait.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>

#include <linux/time_types.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/exiting_sleep.h"

namespace udapl {

namespace {

#ifdef SYS_epoll_pwait2
// Returns false if it has not waited: the caller then uses epoll_wait.
bool precise_wait(int epoll, epoll_event* events, int max, Clock::duration left,
                  int& result) noexcept {
  static std::atomic<bool> available{true};
  if (!available.load(std::memory_order_relaxed)) return false;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  __kernel_timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = std::chrono::nanoseconds(left - seconds).count();
  result = static_cast<int>(sleep_in([&] {
    return raw_system_call(SYS_epoll_pwait2, epoll, events, max, &timeout, nullptr,
                           sizeof(std::uint64_t));
  }));
  if (result >= 0 || errno == EINTR || errno == EBADF || errno == EINVAL) return true;
  // These codes come from an old kernel, or from a container whose seccomp filter rejects the call.
  if (errno == ENOSYS || errno == EPERM || errno == EACCES)
    available.store(false, std::memory_order_relaxed);
  return false;
}
#else
bool precise_wait(int, epoll_event*, int, Clock::duration, int&) noexcept { return false; }
#endif

}  // namespace

timespec time_until(Clock::time_point when) noexcept {
  const Clock::duration left = std::max(when - Clock::now(), Clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec result{};
  result.tv_sec = seconds.count();
  result.tv_nsec = std::chrono::nanoseconds(left - seconds).count();
  return result;
}

bool poll_allowed(unsigned descriptors) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= descriptors;
}

int wait_for_events(int epoll, epoll_event* events, int max, const Deadline& until) noexcept {
  if (!until) return sleep_in([&] { return ::epoll_wait(epoll, events, max, -1); });
  const Clock::duration left = *until - Clock::now();
  if (left <= Clock::duration::zero()) return ::epoll_wait(epoll, events, max, 0);
  int result = 0;
  if (precise_wait(epoll, events, max, left, result)) return result;
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  const int time = static_cast<int>(milliseconds < INT_MAX ? milliseconds : INT_MAX);
  return sleep_in([&] { return ::epoll_wait(epoll, events, max, time); });
}

}  // namespace udapl
