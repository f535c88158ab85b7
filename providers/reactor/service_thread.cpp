// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/service_thread.h"

#include <link.h>

#include <cerrno>
#include <cstddef>

#include "common/signals_blocked.h"

namespace udapl {

namespace {

constexpr std::size_t kStackSize = std::size_t{256} * 1024;

// The C library puts the thread-local storage of the program, and of the libraries that it was
// started with, on the stack of each thread. Counts that of libraries loaded later, too.
std::size_t thread_local_bytes() noexcept {
  std::size_t bytes = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* loaded, std::size_t, void* sum) {
        for (int i = 0; i < loaded->dlpi_phnum; ++i) {
          const auto& header = loaded->dlpi_phdr[i];
          if (header.p_type == PT_TLS)
            *static_cast<std::size_t*>(sum) += header.p_memsz + header.p_align;
        }
        return 0;
      },
      &bytes);
  return bytes;
}

}  // namespace

void* ServiceThread::run(void* self) noexcept {
  auto& thread = *static_cast<ServiceThread*>(self);
  thread.running_.store(::pthread_self(), std::memory_order_relaxed);
  thread.entry_.function(thread.entry_.object);
  return nullptr;
}

int ServiceThread::start(const char* name, Call entry) noexcept {
  entry_ = entry;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackSize + thread_local_bytes());
  int error = 0;
  {
    const SignalsBlocked scope;
    error = ::pthread_create(&thread_, &attributes, &run, this);
    // The C library may have reserved more for libraries that are loaded later.
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
