// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace udapl::test {

// Runs `body` in a forked child and returns its exit status. The test ends if a signal ends the
// child, as SIGALRM does after `limit` seconds. `body` contains no macro of Boost.Test.
inline int status_in_child(const std::function<int()>& body, unsigned limit = 60) {
  const pid_t child = ::fork();
  if (child == 0) {
    // Boost.Test may have installed handlers.
    ::signal(SIGALRM, SIG_DFL);
    ::signal(SIGPIPE, SIG_DFL);
    ::alarm(limit);
    ::_exit(body());
  }
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  BOOST_REQUIRE_MESSAGE(WIFEXITED(status), "killed by signal " << WTERMSIG(status));
  return WEXITSTATUS(status);
}

// The same for a body that returns 0, or the number of the check that failed.
inline void in_child(const std::function<int()>& body, unsigned limit = 60) {
  const int failed = status_in_child(body, limit);
  BOOST_TEST(failed == 0, "check " << failed << " failed");
}

}  // namespace udapl::test
