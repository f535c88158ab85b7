// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/thread_id.h"

#include <pthread.h>
#include <unistd.h>

namespace udapl {

namespace {

constinit thread_local pid_t remembered = 0;

// The only thread of a child is the one that forked, so clearing its own copy is enough.
bool forget_in_children() noexcept {
  return ::pthread_atfork(nullptr, nullptr, [] { remembered = 0; }) == 0;
}

}  // namespace

pid_t thread_id() noexcept {
  if (remembered != 0) [[likely]]
    return remembered;
  static const bool forgets = forget_in_children();
  const pid_t id = ::gettid();
  if (forgets) remembered = id;
  return id;
}

}  // namespace udapl
