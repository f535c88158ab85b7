// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <csignal>
#include <initializer_list>

namespace udapl {

// Blocks signals in the calling thread during the lifetime of this object. A thread that is started
// meanwhile inherits the mask for good, so that only the application's threads handle the
// application's signals. Signals that instructions raise (SIGSEGV, SIGBUS) are not blocked: when
// such a signal is raised while blocked, the kernel kills the process, although the program may
// have a handler, for example for crash logs.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      ::sigdelset(&blocked, signal);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace udapl
