// SPDX-License-Identifier: MIT OR GPL-2.0-only
#undef _FORTIFY_SOURCE  // it provides inline versions of functions that are defined below
#include "counted_calls.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdarg>
#include <ctime>
#include <utility>

namespace bench {

std::array<std::atomic<long>, kKinds> call_counts{};

namespace {

thread_local bool has_slept = false;  // since the program's last call

void count(Kind kind) { ++call_counts[kind]; }

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// A device has its own functions for these calls, in the operations of its context.
int (*arm_cq)(ibv_cq*, int) = nullptr;
int (*poll_cq)(ibv_cq*, int, ibv_wc*) = nullptr;

int count_arming(ibv_cq* cq, int solicited) {
  count(kArming);
  return arm_cq(cq, solicited);
}
int count_empty(ibv_cq* cq, int most, ibv_wc* work) {
  const int found = poll_cq(cq, most, work);
  if (found == 0) count(kEmpty);
  return found;
}

}  // namespace

void has_returned() { has_slept = false; }

#pragma GCC visibility push(default)
extern "C" {
int poll(pollfd* fds, nfds_t number, int timeout) {
  static auto* const real = next<int(pollfd*, nfds_t, int)>("poll");
  count(kPoll);
  const int ready = real(fds, number, timeout);
  has_slept = true;
  return ready;
}
int ppoll(pollfd* fds, nfds_t number, const timespec* timeout, const sigset_t* mask) {
  static auto* const real = next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)>("ppoll");
  count(kPoll);
  const int ready = real(fds, number, timeout, mask);
  has_slept = true;
  return ready;
}
ssize_t read(int fd, void* buffer, size_t size) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  count(kRead);
  return real(fd, buffer, size);
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  static auto* const real = next<ibv_comp_channel*(ibv_context*)>("ibv_create_comp_channel");
  if (context->ops.req_notify_cq != count_arming) {
    arm_cq = std::exchange(context->ops.req_notify_cq, count_arming);
    poll_cq = std::exchange(context->ops.poll_cq, count_empty);
  }
  return real(context);
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context) {
  static auto* const real = next<int(ibv_comp_channel*, ibv_cq**, void**)>("ibv_get_cq_event");
  if (has_slept) count(kAwaited);
  return real(channel, cq, context);
}
ssize_t write(int fd, const void* buffer, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  count(kWrite);
  return real(fd, buffer, size);
}
int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  static auto* const real = next<int(int, epoll_event*, int, int)>("epoll_wait");
  count(kEpoll);
  const int ready = real(epoll, events, most, timeout);
  has_slept = true;
  return ready;
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  static auto* const real = next<int(int, int, int, epoll_event*)>("epoll_ctl");
  count(kEpoll);
  return real(epoll, operation, fd, event);
}
int timerfd_settime(int timer, int flags, const itimerspec* value, itimerspec* old) noexcept {
  static auto* const real = next<int(int, int, const itimerspec*, itimerspec*)>("timerfd_settime");
  count(kTimer);
  return real(timer, flags, value, old);
}
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  if (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME) count(kClock);  // not the coarse ones
  return real(clock, time);
}
long syscall(long number, ...) noexcept {
  static auto* const real = next<long(long, ...)>("syscall");
  std::va_list list;
  va_start(list, number);
  std::array<long, 6> argument{};
  for (long& value : argument) value = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex) count(kFutex);
  if (number == SYS_epoll_pwait2) count(kEpoll);
  return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
}
#pragma GCC visibility pop

}  // namespace bench
