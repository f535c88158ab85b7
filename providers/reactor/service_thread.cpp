// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/service_thread.h"

#include <cerrno>
#include <cstddef>

#include "common/signals_blocked.h"

namespace udapl {

void* ServiceThread::run(void* self) noexcept {
  auto& thread = *static_cast<ServiceThread*>(self);
  thread.running_.store(::pthread_self(), std::memory_order_relaxed);
  thread.entry_.function(thread.entry_.object);
  return nullptr;
}

int ServiceThread::start(const char* name, Call entry) noexcept {
  constexpr std::size_t kStackSize = std::size_t{256} * 1024;
  entry_ = entry;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackSize);
  int error = 0;
  {
    const SignalsBlocked scope;
    error = ::pthread_create(&thread_, &attributes, &run, this);
    // The stack is too small for a program with much thread-local storage: uses the default size.
    if (error == EINVAL) error = ::pthread_create(&thread_, nullptr, &run, this);
  }
  ::pthread_attr_destroy(&attributes);
  if (error != 0) return error;
  started_ = true;
  ::pthread_setname_np(thread_, name);
  return 0;
}

void ServiceThread::join() noexcept {
  if (started_) ::pthread_join(thread_, nullptr);
}

}  // namespace udapl
