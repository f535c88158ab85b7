// SPDX-License-Identifier: MIT OR GPL-2.0-only
// verbs_wait_calls [--print] [--cno|--fd] [--pause=US] IA[/threadsafe]
//
// Counts the system calls per message between two threads that sleep in dat_evd_wait, with --cno in
// dat_cno_wait, or with --fd in poll, on the descriptor of a CNO, each with its own IA. With
// --pause each of them sleeps for so many microseconds before it sends, so that the other one waits
// for long. The calls of all libraries are counted, because this program defines functions of the
// same names. Of many batches, the one with the fewest calls counts: on a busy machine a thread may
// be late for the next message. "awaited" are the reads of completion channels between the end of a
// sleep and the return to the program, for which the peer has to wait. Exit status 1: more than
// about one poll, one read and a few other calls per message.
#undef _FORTIFY_SOURCE  // it provides inline versions of functions that are defined below
#include "loopback.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace {

enum Kind { kPoll, kRead, kWrite, kEpoll, kTimer, kClock, kFutex, kAwaited, kKinds };
constexpr std::array<const char*, kKinds> kNames{"poll",  "read",  "write", "epoll",
                                                 "timer", "clock", "futex", "awaited"};
// Limits per message in the best batch. The packaged provider makes one poll and 1.3 reads. With a
// descriptor, both completions of a message may each end a poll. A trigger of a CNO that is
// consumed arms the CQ again, and so reads its event first.
using Calls = std::array<double, kKinds>;
constexpr Calls kMaxRatios{1.1, 1.3, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05};
constexpr Calls kMaxRatiosOfCno{1.1, 1.3, 0.05, 0.05, 0.05, 0.05, 0.05, 1.1};
constexpr Calls kMaxRatiosOfDescriptor{2.1, 2.1, 0.05, 0.05, 0.05, 0.05, 0.05, 4.2};

std::array<std::atomic<long>, kKinds> counts{};
thread_local bool has_slept = false;  // since the program's last call

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
int poll(pollfd* fds, nfds_t count, int timeout) {
  static auto* const real = next<int(pollfd*, nfds_t, int)>("poll");
  ++counts[kPoll];
  const int ready = real(fds, count, timeout);
  has_slept = true;
  return ready;
}
int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  static auto* const real = next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)>("ppoll");
  ++counts[kPoll];
  const int ready = real(fds, count, timeout, mask);
  has_slept = true;
  return ready;
}
ssize_t read(int fd, void* buffer, size_t size) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  ++counts[kRead];
  return real(fd, buffer, size);
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context) {
  static auto* const real = next<int(ibv_comp_channel*, ibv_cq**, void**)>("ibv_get_cq_event");
  if (has_slept) ++counts[kAwaited];
  return real(channel, cq, context);
}
ssize_t write(int fd, const void* buffer, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  ++counts[kWrite];
  return real(fd, buffer, size);
}
int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  static auto* const real = next<int(int, epoll_event*, int, int)>("epoll_wait");
  ++counts[kEpoll];
  return real(epoll, events, most, timeout);
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  static auto* const real = next<int(int, int, int, epoll_event*)>("epoll_ctl");
  ++counts[kEpoll];
  return real(epoll, operation, fd, event);
}
int timerfd_settime(int timer, int flags, const itimerspec* value, itimerspec* old) noexcept {
  static auto* const real = next<int(int, int, const itimerspec*, itimerspec*)>("timerfd_settime");
  ++counts[kTimer];
  return real(timer, flags, value, old);
}
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  if (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME) ++counts[kClock];  // not the coarse ones
  return real(clock, time);
}
long syscall(long number, ...) noexcept {
  static auto* const real = next<long(long, ...)>("syscall");
  std::va_list list;
  va_start(list, number);
  std::array<long, 6> argument{};
  for (long& value : argument) value = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex) ++counts[kFutex];
  if (number == SYS_epoll_pwait2) ++counts[kEpoll];
  return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
}
#pragma GCC visibility pop

namespace {

constexpr std::size_t kBytes = 8;
constexpr int kDepth = 16;
constexpr DAT_TIMEOUT kPatience = 10'000'000;  // us

struct Options {
  bool print = false;  // only
  bool cno = false;
  bool descriptor = false;
  std::chrono::microseconds pause{0};
  std::string_view ia;

  // With pauses, some batches are shorter than the interval of the timers that scan idle CQs.
  [[nodiscard]] int batches() const { return pause.count() == 0 ? 60 : 40; }
  [[nodiscard]] int rounds() const { return pause.count() == 0 ? 100 : 10; }  // two messages each
};

struct Side {
  explicit Side(const Options& with) : options(with) {
    if (options.cno)
      bench::check(dat_cno_create(adapter.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno),
                   "dat_cno_create");
    else if (options.descriptor)
      bench::check(dat_cno_fd_create(adapter.ia, &descriptor, &cno), "dat_cno_fd_create");
    bench::check(dat_evd_create(adapter.ia, kDepth, cno, DAT_EVD_DTO_FLAG, &end.recv_evd),
                 "dat_evd_create");
    // With a descriptor the consumer sleeps nowhere else.
    bench::check(dat_evd_create(adapter.ia, kDepth, options.descriptor ? cno : DAT_HANDLE_NULL,
                                DAT_EVD_DTO_FLAG, &end.request_evd),
                 "dat_evd_create");
    bench::create_evd(adapter, 8, DAT_EVD_CONNECTION_FLAG, &end.connect_evd);
    end.create_ep(adapter, kDepth);
  }
  ~Side() {
    end.destroy();
    if (cno != DAT_HANDLE_NULL) bench::check(dat_cno_free(cno), "dat_cno_free");
  }
  void send() {
    if (options.pause.count() != 0) std::this_thread::sleep_for(options.pause);
    end.post_send(buffer, kBytes);
  }
  void receive() {
    if (cno != DAT_HANDLE_NULL)
      wait_for_cno(end.recv_evd);
    else
      wait(end.recv_evd);
    has_slept = false;
    end.post_recv(buffer, kBytes);
  }
  void take_send() {
    if (options.descriptor)
      wait_for_cno(end.request_evd);
    else
      wait(end.request_evd);
    has_slept = false;
  }

  const Options& options;
  bench::Adapter adapter;
  bench::End end;
  bench::Buffer buffer{adapter, kBytes};
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  DAT_FD descriptor = -1;

 private:
  void wait_for_cno(DAT_EVD_HANDLE awaited) const {
    DAT_EVENT event;
    while (DAT_GET_TYPE(dat_evd_dequeue(awaited, &event)) == DAT_QUEUE_EMPTY) {
      DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
      if (!options.descriptor) {
        bench::check(dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd), "dat_cno_wait");
        continue;
      }
      pollfd readable{descriptor, POLLIN, 0};
      if (::poll(&readable, 1, -1) == 1)
        bench::check(dat_cno_trigger(cno, &evd), "dat_cno_trigger");
    }
  }
  // Without a time limit, so that no clock is read.
  static void wait(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    bench::check(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
  }
};

void connect(Side& active, Side& passive) {
  DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  bench::check(dat_evd_create(passive.adapter.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests),
               "dat_evd_create");
  const DAT_CONN_QUAL conn_qual = bench::listen(passive.adapter.ia, requests, &psp);
  for (Side* side : {&active, &passive}) side->end.post_recv(side->buffer, kBytes);
  bench::check(dat_ep_connect(active.end.ep, passive.adapter.attr.ia_address_ptr, conn_qual,
                              kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
               "dat_ep_connect");
  DAT_EVENT event;
  DAT_COUNT more = 0;
  bench::check(dat_evd_wait(requests, kPatience, 1, &event, &more), "dat_evd_wait");
  bench::check(
      dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, passive.end.ep, 0, nullptr),
      "dat_cr_accept");
  for (Side* side : {&active, &passive})
    bench::wait_connection(side->end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  bench::check(dat_psp_free(psp), "dat_psp_free");
  bench::check(dat_evd_free(requests), "dat_evd_free");
}

Calls calls_of_a_message(Side& side, int rounds) {
  for (auto& count : counts) count = 0;
  for (int i = 0; i < rounds; ++i) {
    side.send();
    side.take_send();
    side.receive();
  }
  Calls calls{};
  for (int kind = 0; kind < kKinds; ++kind)
    calls[kind] = static_cast<double>(counts[kind].load()) / (2 * rounds);
  return calls;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    constexpr std::string_view kPause = "--pause=";
    if (argument == "--print")
      options.print = true;
    else if (argument == "--cno")
      options.cno = true;
    else if (argument == "--fd")
      options.descriptor = true;
    else if (argument.starts_with(kPause))
      options.pause = std::chrono::microseconds(std::atoi(argv[i] + kPause.size()));
    else if (options.ia.empty() && !argument.starts_with("-"))
      options.ia = argument;
    else
      return std::nullopt;
  }
  if (options.ia.empty()) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: verbs_wait_calls [--print] [--cno|--fd] [--pause=US] IA[/threadsafe]\n");
    return 2;
  }
  const std::string_view name = options->ia;
  const std::size_t slash = name.find('/');
  bench::set_ia_name(std::string(name.substr(0, slash)));
  bench::set_thread_safe(slash != std::string_view::npos);
  Side here(*options);
  Side there(*options);
  connect(here, there);
  std::thread echo([&] {
    for (int i = 0; i < options->batches() * options->rounds(); ++i) {
      there.receive();
      there.send();
      there.take_send();
    }
  });
  Calls least{};
  Calls sum{};
  double fewest = 1e9;
  for (int i = 0; i < options->batches(); ++i) {
    const Calls calls = calls_of_a_message(here, options->rounds());
    double all = 0;
    for (int kind = 0; kind < kKinds; ++kind) {
      all += calls[kind];
      sum[kind] += calls[kind];
    }
    if (all >= fewest) continue;
    fewest = all;
    least = calls;
  }
  echo.join();
  bool good = options->print || least[kPoll] > 0;  // 0: they did not sleep, or nothing was counted
  const Calls& most = options->descriptor ? kMaxRatiosOfDescriptor
                      : options->cno      ? kMaxRatiosOfCno
                                          : kMaxRatios;
  for (int kind = 0; kind < kKinds; ++kind) {
    std::printf("%-6s %.2f (at most %.2f), in all batches %.2f\n", kNames[kind], least[kind],
                most[kind], sum[kind] / options->batches());
    good = good && (options->print || least[kind] <= most[kind]);
  }
  bench::check(dat_ep_disconnect(here.end.ep, DAT_CLOSE_ABRUPT_FLAG), "dat_ep_disconnect");
  for (Side* side : {&here, &there})
    bench::wait_connection(side->end.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  return good ? 0 : 1;
}
