// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/exiting_sleep.h"

#include <csetjmp>

#include <pthread.h>
#include <unistd.h>

#include "common/thread_end.h"

namespace udapl {

namespace {

struct Place {
  std::jmp_buf registers;
  Place* outer;  // if a signal handler makes this call: the place of the wait that it interrupts
};
constinit thread_local Place* innermost = nullptr;

}  // namespace

long (*volatile const raw_system_call)(long number, ...) = &::syscall;

unsigned call_that_sleeps(unsigned (*call)(void* context), void* context) {
  Place here;
  here.outer = innermost;
  innermost = &here;
  if (setjmp(here.registers) != 0) {
    innermost = here.outer;
    run_now(ThreadEnd::kSleep);  // before destructors end the visit: the IA may be destroyed then
    ::pthread_exit(nullptr);
  }
  const unsigned result = call(context);
  innermost = here.outer;
  return result;
}

void SleepGuard::leave() noexcept {
  if (innermost != nullptr) std::longjmp(innermost->registers, 1);
}

}  // namespace udapl
