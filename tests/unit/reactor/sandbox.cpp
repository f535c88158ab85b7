// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a program does to itself that the reactor's thread must live with: handlers of signals that
// an instruction raises.
#include <atomic>
#include <csignal>

#include "tests/unit/reactor/bell.h"

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

}  // namespace

BOOST_AUTO_TEST_SUITE(sandbox)

BOOST_AUTO_TEST_CASE(the_service_thread_takes_only_signals_of_its_own_instructions) {
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
