// SPDX-License-Identifier: MIT OR GPL-2.0-only
// soft_calls [--ia=NAME] shm|tcp|asleep|waiting
//
// Counts what a process of the software RNIC asks of the kernel. Two processes have connections
// with each other, over the path that the entry NAME chooses.
//   shm, tcp         both poll, with one message in flight: the calls of libc by all threads of
//                    this process. The functions of this program replace those of the same names
//                    for all libraries. One batch of many must be within the limits: a thread that
//                    loses its processor comes back to a lease that has expired, which costs calls.
//   asleep, waiting  both are idle: the seconds with context switches of any thread of the other
//                    process, whose application thread sleeps in pause(2) or in dat_evd_wait
// Exit status 1: too many; 77: this cannot be counted here, the output is the reason.
#undef _FORTIFY_SOURCE  // it provides inline versions of functions that are defined below
#include "pair.h"

#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace {

enum Kind { kSend, kReceive, kWatch, kOther, kClock, kCoarse, kEmpty, kKinds };
constexpr std::array<const char*, kKinds> kNames{
    "send", "receive", "watch", "other calls", "clock", "coarse clock", "empty polls"};

std::array<std::atomic<long>, kKinds> counts{};

void count(Kind kind) { counts[kind].fetch_add(1, std::memory_order_relaxed); }

}  // namespace

#define UDAPL_REAL(name) \
  static auto* const real = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))
// Defines the function `name` of libc, which counts its calls.
#define UDAPL_COUNTED(kind, result, name, parameters, arguments) \
  result name parameters {                                       \
    UDAPL_REAL(name);                                            \
    count(kind);                                                 \
    return real arguments;                                       \
  }

#pragma GCC visibility push(default)
extern "C" {
UDAPL_COUNTED(kSend, ssize_t, send, (int fd, const void* data, size_t size, int flags),
              (fd, data, size, flags))
UDAPL_COUNTED(kSend, ssize_t, sendmsg, (int fd, const msghdr* message, int flags),
              (fd, message, flags))
UDAPL_COUNTED(kSend, ssize_t, sendto,
              (int fd, const void* data, size_t size, int flags, const sockaddr* to,
               socklen_t length),
              (fd, data, size, flags, to, length))
UDAPL_COUNTED(kSend, ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size))
UDAPL_COUNTED(kReceive, ssize_t, recv, (int fd, void* data, size_t size, int flags),
              (fd, data, size, flags))
UDAPL_COUNTED(kReceive, ssize_t, recvmsg, (int fd, msghdr* message, int flags),
              (fd, message, flags))
UDAPL_COUNTED(kReceive, ssize_t, read, (int fd, void* data, size_t size), (fd, data, size))
UDAPL_COUNTED(kWatch, int, poll, (pollfd * fds, nfds_t many, int timeout), (fds, many, timeout))
UDAPL_COUNTED(kWatch, int, ppoll,
              (pollfd * fds, nfds_t many, const timespec* timeout, const sigset_t* mask),
              (fds, many, timeout, mask))
UDAPL_COUNTED(kWatch, int, epoll_wait, (int epoll, epoll_event* events, int most, int timeout),
              (epoll, events, most, timeout))
UDAPL_COUNTED(kWatch, int, epoll_ctl,
              (int epoll, int operation, int fd, epoll_event* event) noexcept,
              (epoll, operation, fd, event))
UDAPL_COUNTED(kOther, int, timerfd_settime,
              (int timer, int flags, const itimerspec* value, itimerspec* old) noexcept,
              (timer, flags, value, old))
UDAPL_COUNTED(kOther, int, sched_yield, () noexcept, ())
UDAPL_COUNTED(kOther, int, nanosleep, (const timespec* time, timespec* rest), (time, rest))
UDAPL_COUNTED(kOther, int, getsockopt,
              (int fd, int level, int name, void* value, socklen_t* size) noexcept,
              (fd, level, name, value, size))
UDAPL_COUNTED(kOther, int, setsockopt,
              (int fd, int level, int name, const void* value, socklen_t size) noexcept,
              (fd, level, name, value, size))
UDAPL_COUNTED(kOther, int, madvise, (void* begin, size_t size, int advice) noexcept,
              (begin, size, advice))
UDAPL_COUNTED(kOther, int, getrusage, (__rusage_who_t who, rusage* usage) noexcept, (who, usage))
UDAPL_COUNTED(kOther, pid_t, getpid, () noexcept, ())
UDAPL_COUNTED(kOther, pid_t, gettid, () noexcept, ())
UDAPL_COUNTED(kOther, ssize_t, process_vm_readv,
              (pid_t pid, const iovec* to, unsigned long many, const iovec* from,
               unsigned long parts, unsigned long flags) noexcept,
              (pid, to, many, from, parts, flags))
UDAPL_COUNTED(kOther, ssize_t, process_vm_writev,
              (pid_t pid, const iovec* from, unsigned long many, const iovec* to,
               unsigned long parts, unsigned long flags) noexcept,
              (pid, from, many, to, parts, flags))
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  UDAPL_REAL(clock_gettime);
  count(clock == CLOCK_MONOTONIC_COARSE ? kCoarse : kClock);
  return real(clock, time);
}
long syscall(long number, ...) noexcept {
  UDAPL_REAL(syscall);
  std::va_list list;
  va_start(list, number);
  std::array<long, 6> argument{};
  for (long& value : argument) value = va_arg(list, long);
  va_end(list);
  count(number == SYS_epoll_pwait2 ? kWatch
        : number == SYS_recvfrom   ? kReceive
        : number == SYS_sendto     ? kSend
                                   : kOther);
  return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
}
#pragma GCC visibility pop

namespace {

constexpr std::size_t kBytes = 8;
constexpr int kRounds = 500;  // of a batch; a message each way
constexpr int kBatches = 400;
constexpr int kConnections = 4;  // of idle processes
constexpr auto kSettle = std::chrono::seconds(2);
// Threads wake once every five seconds, some of them one after the other.
constexpr int kSeconds = 6;
constexpr int kMostRestless = 3;

using Calls = std::array<double, kKinds>;

class Talk {
 public:
  explicit Talk(bench::PairMember& member)
      : end_(member.ends.front()), buffer_(member.adapter, kBytes) {
    end_.post_recv(buffer_, kBytes);
    member.meet();
  }
  void send() const {
    end_.post_send(buffer_, kBytes);
    poll(end_.request_evd);
  }
  void receive() const {
    poll(end_.recv_evd);
    end_.post_recv(buffer_, kBytes);
  }

 private:
  static void poll(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    DAT_RETURN rc = dat_evd_dequeue(evd, &event);
    for (; DAT_GET_TYPE(rc) == DAT_QUEUE_EMPTY; rc = dat_evd_dequeue(evd, &event)) count(kEmpty);
    bench::check(rc, "dat_evd_dequeue");
    const auto& dto = event.event_data.dto_completion_event_data;
    if (event.event_number != DAT_DTO_COMPLETION_EVENT || dto.status != DAT_DTO_SUCCESS)
      std::exit(1);
  }

  const bench::End& end_;
  bench::Buffer buffer_;
};

// Of this process in one round, in which it sends a message and receives one.
Calls calls_of_a_round(const Talk& talk) {
  for (auto& count : counts) count = 0;
  for (int i = 0; i < kRounds; ++i) {
    talk.send();
    talk.receive();
  }
  Calls calls{};
  for (int kind = 0; kind < kKinds; ++kind)
    calls[kind] = static_cast<double>(counts[kind].load()) / kRounds;
  return calls;
}

// Only one poll of 16 that find nothing makes a turn, which reads the clock; some turns push the
// timer of the lease or poll epoll.
Calls limits_over_rings(const Calls& calls) {
  return {.0, .0, .1 + calls[kEmpty] / 64, .25, .25 + calls[kEmpty] / 12, .0, HUGE_VAL};
}

// One send; each poll tries to receive, but of 32 one makes a turn, which polls epoll and reads the
// clock, instead. A message counts as four.
Calls limits_over_tcp(const Calls& calls) {
  const double turns = .3 + (calls[kReceive] + calls[kWatch]) / 16;
  return {1.1, 1.3 + calls[kEmpty], turns, .3 + turns / 2, 2 * turns, .0, HUGE_VAL};
}

bool within(const Calls& calls, const Calls& limits) {
  return std::ranges::equal(calls, limits, std::ranges::less_equal{});
}

void print(const Calls& calls, const Calls& limits) {
  for (int kind = 0; kind < kKinds; ++kind)
    std::printf("%-12s %8.3f (at most %.3f)\n", kNames[kind], calls[kind], limits[kind]);
}

void echo(bench::Meeting& meeting) {
  bench::PairMember member(bench::PairMember::kPassive, meeting, 1);
  member.connect();
  const Talk talk(member);
  while (true) {
    talk.receive();
    talk.send();
  }
}

[[noreturn]] void finish(bool good) {
  std::fflush(stdout);
  ::_exit(good ? 0 : 1);
}

void count_polling(Calls (*limits)(const Calls&)) {
  bench::run_pair(echo, [&](bench::Meeting& meeting) {
    bench::PairMember member(bench::PairMember::kActive, meeting, 1);
    member.connect();
    const Talk talk(member);
    Calls calls = calls_of_a_round(talk);
    for (int i = 1; i < kBatches && !within(calls, limits(calls)); ++i)
      calls = calls_of_a_round(talk);
    print(calls, limits(calls));
    finish(within(calls, limits(calls)));
  });
}

// The context switches of all threads of a process.
long switches(int pid) {
  long sum = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;)
      if (long value = 0; word.ends_with("voluntary_ctxt_switches:") && status >> value)
        sum += value;
  }
  return sum;
}

void count_idle(bool waits) {
  bench::run_pair(
      [&](bench::Meeting& meeting) {
        bench::PairMember member(bench::PairMember::kPassive, meeting, kConnections);
        meeting.passive_result = ::getpid();
        member.connect();
        const Talk talk(member);
        talk.receive();
        talk.send();
        member.meet();
        DAT_EVENT event;
        DAT_COUNT more = 0;
        if (waits)
          dat_evd_wait(member.ends.front().recv_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
        while (true) ::pause();
      },
      [&](bench::Meeting& meeting) {
        bench::PairMember member(bench::PairMember::kActive, meeting, kConnections);
        member.connect();
        const Talk talk(member);
        talk.send();
        talk.receive();
        member.meet();
        const int other = static_cast<int>(meeting.passive_result);
        std::this_thread::sleep_for(kSettle);
        long before = switches(other);
        int restless = before > 0 ? 0 : kSeconds;  // 0: nothing was counted
        for (int i = 0; i < kSeconds; ++i) {
          std::this_thread::sleep_for(std::chrono::seconds(1));
          const long now = switches(other);
          std::printf("%ld context switches\n", now - before);
          restless += now != before ? 1 : 0;
          before = now;
        }
        std::printf("%d of %d seconds with switches (at most %d)\n", restless, kSeconds,
                    kMostRestless);
        finish(restless <= kMostRestless);
      });
}

bool has_both_processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_ISSET(0, &set) && CPU_ISSET(1, &set);
}

bool measure(std::string_view what) {
  if (what == "shm")
    count_polling(limits_over_rings);
  else if (what == "tcp")
    count_polling(limits_over_tcp);
  else if (what == "asleep" || what == "waiting")
    count_idle(what == "waiting");
  else
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view kIaOption = "--ia=";
  int next = 1;
  if (argc > 1 && std::string_view(argv[1]).starts_with(kIaOption))
    bench::set_ia_name(argv[next++] + kIaOption.size());
  if (!has_both_processors()) {
    std::puts("the two processes need a processor each");
    return bench::kSkipped;
  }
  if (argc == next + 1 && measure(argv[next])) return 0;
  std::fputs("usage: soft_calls [--ia=NAME] shm|tcp|asleep|waiting\n", stderr);
  return 2;
}
