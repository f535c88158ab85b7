// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a program does to itself that the service thread must live with: handlers of signals that
// an instruction raises, system calls that a filter rejects, no more descriptors.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <thread>

#include "tests/child/in_child.h"
#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/processor_time.h"

namespace udapl::test {

namespace {

struct Mask {
  void look() noexcept {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
    seen = true;
  }
  sigset_t set{};
  std::atomic<bool> seen{false};
};

struct Witness {
  void lost() noexcept { ++times; }
  void called() noexcept { ++calls; }
  std::atomic<int> times{0};
  std::atomic<int> calls{0};
};

// Has the kernel reject a system call in all threads of the process.
bool reject(unsigned call, unsigned error) {
  std::array<sock_filter, 4> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{code.size(), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

// 0, or the number of the check that failed.
int still_works(Reactor& reactor, Witness& witness) {
  Deferred deferred(reactor, Call::to<&Witness::called>(&witness));
  deferred.post();
  if (!eventually([&] { return witness.calls == 1; })) return 11;
  Timer timer(reactor, Call::to<&Witness::called>(&witness));
  timer.start_after(1ms);
  if (!eventually([&] { return witness.calls == 2; })) return 12;
  WaitWord word;
  if (reactor.block(word, 0, Clock::now() + 20ms) != WaitResult::kTimedOut) return 13;
  return witness.times == 0 ? 0 : 14;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sandbox)

BOOST_AUTO_TEST_CASE(service_thread_takes_no_signals_but_its_own) {
  auto reactor = std::move(*Reactor::create("reactor-test"));
  Mask mask;
  Deferred deferred(*reactor, Call::to<&Mask::look>(&mask));
  deferred.post();
  BOOST_REQUIRE(eventually([&] { return mask.seen.load(); }));
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    BOOST_TEST(::sigismember(&mask.set, signal) == 0, "signal " << signal);
  for (const int signal : {SIGTERM, SIGALRM, SIGCHLD, SIGINT})
    BOOST_TEST(::sigismember(&mask.set, signal) == 1, "signal " << signal);
}

#ifdef SYS_epoll_pwait2
BOOST_AUTO_TEST_CASE(a_filter_may_reject_a_new_call_with_any_error) {
  for (const unsigned error : {EACCES, ENOSYS, EPERM, ENOTSUP}) {
    BOOST_TEST_CONTEXT("error " << error)
    in_child([error] {
      if (!reject(SYS_epoll_pwait2, error)) return 0;
      auto reactor = std::move(*Reactor::create("reactor-test"));
      Witness witness;
      reactor->on_descriptors_lost(Call::to<&Witness::lost>(&witness));
      return still_works(*reactor, witness);
    });
  }
}
#endif

BOOST_AUTO_TEST_CASE(limit_of_no_descriptors_causes_no_spinning) {
  in_child([] {
    auto reactor = std::move(*Reactor::create("reactor-test"));
    Witness witness;
    reactor->on_descriptors_lost(Call::to<&Witness::lost>(&witness));
    std::this_thread::sleep_for(100ms);  // lets the service thread go to sleep
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
    if (const int failed = still_works(*reactor, witness); failed != 0) return failed;
    const double before = processor_seconds();
    std::this_thread::sleep_for(1s);
    return processor_seconds() - before > 0.5 ? 2 : 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
