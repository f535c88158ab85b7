// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A signal handler that runs between the failure of a call and the look at errno, and that changes
// errno, as handlers that reap children do. Connections survive it. Like calls.cpp, this defines
// the calls in the program.
#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <string>

#include "every_fault.h"
#include "tests/child/in_child.h"

namespace {

using faults::Pair;
using faults::Run;
using udapl::test::in_child;

enum class Call { kNone, kEpollWait, kRecv, kRecvmsg, kSend, kSendmsg };
std::atomic<Call> strange{Call::kNone};

// Whether this call is to fail: once.
bool fails(Call call) {
  Call expected = call;
  if (!strange.compare_exchange_strong(expected, Call::kNone)) return false;
  errno = ECHILD;
  return true;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

#define STRANGE_CALL(result, name, call, parameters, arguments) \
  [[gnu::visibility("default")]] result name parameters {       \
    static const auto next = real<result(*) parameters>(#name); \
    if (fails(call)) return -1;                                 \
    return next arguments;                                      \
  }

STRANGE_CALL(int, epoll_wait, Call::kEpollWait, (int fd, epoll_event* events, int max, int timeout),
             (fd, events, max, timeout))
STRANGE_CALL(ssize_t, recv, Call::kRecv, (int fd, void* to, size_t size, int flags),
             (fd, to, size, flags))
STRANGE_CALL(ssize_t, recvmsg, Call::kRecvmsg, (int fd, msghdr* message, int flags),
             (fd, message, flags))
STRANGE_CALL(ssize_t, send, Call::kSend, (int fd, const void* from, size_t size, int flags),
             (fd, from, size, flags))
STRANGE_CALL(ssize_t, sendmsg, Call::kSendmsg, (int fd, const msghdr* message, int flags),
             (fd, message, flags))

// The provider makes some of these calls without the functions of the C library. Fewer than six
// arguments may have been passed.
[[gnu::visibility("default"), gnu::no_sanitize_address]] long syscall(long number, ...) {
  static const auto next = real<long (*)(long, ...)>("syscall");
  std::array<long, 6> arguments{};
  va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_recvfrom && fails(Call::kRecv)) return -1;
  if (number == SYS_sendto && fails(Call::kSend)) return -1;
  return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
              arguments[5]);
}

}  // extern "C"

namespace {

// Polls, too.
bool is_empty(DAT_EVD_HANDLE evd) {
  DAT_EVENT event{};
  return DAT_GET_TYPE(dat_evd_dequeue(evd, &event)) == DAT_QUEUE_EMPTY;
}

// Returns 0, or the number of the check that failed. `made`: whether the call was made.
int transfer_despite(const char* adapter, Call call, bool& made) {
  Run run(adapter);
  Pair pair(run);
  if (!pair.create() || !pair.connect()) return 1;
  strange.store(call);
  for (int i = 0; i < 200 && strange.load() == call; ++i)
    if (!faults::send(pair) || !is_empty(pair.active.recv_evd)) return 2;
  made |= strange.exchange(Call::kNone) == Call::kNone;
  if (!faults::send(pair)) return 3;
  if (!is_empty(run.async_evd) || !pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG)) return 4;
  run.finish();
  return run.complaints().empty() ? 0 : 5;
}

int transfer_despite_all(const char* adapter) {
  bool made = false;
  for (const Call call :
       {Call::kEpollWait, Call::kRecv, Call::kRecvmsg, Call::kSend, Call::kSendmsg}) {
    const int failed = transfer_despite(adapter, call, made);
    if (failed != 0) return 10 * static_cast<int>(call) + failed;
  }
  return made ? 0 : 1;
}

BOOST_AUTO_TEST_SUITE(strange_errno)

BOOST_AUTO_TEST_CASE(connections_survive_it) {
  in_child([] { return transfer_despite_all("mock"); });
}

BOOST_AUTO_TEST_CASE(connections_over_tcp_survive_it) {
  in_child([] { return transfer_despite_all("tcp"); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
