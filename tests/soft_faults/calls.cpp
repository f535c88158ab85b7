// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Makes the N-th system call or allocation of our libraries fail. The functions are defined in the
// program, and so take precedence over those of the C and C++ libraries in everything that it
// loads. Calls of the test itself never fail.
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "mock_control.h"

namespace {

constexpr int kDeepest = 24;  // stack frames that are searched for our libraries

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

std::atomic<unsigned> fails_at{0};
std::atomic<unsigned> calls{0};
std::atomic<const char*> failed{nullptr};
thread_local bool inside = false;

// The address range of the library whose name contains `part`.
Range find_library(const char* part) {
  struct Search {
    const char* part;
    Range found;
  } search{part, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        if (std::strstr(info->dlpi_name, wanted.part) == nullptr) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
          wanted.found.begin = info->dlpi_addr + header.p_vaddr;
          wanted.found.end = wanted.found.begin + header.p_memsz;
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

// Whether the call was made by our libraries, directly or through another library.
bool is_ours() {
  static std::array<Range, 2> ranges{};
  if (ranges[1].end == 0) ranges = {find_library("libdat2.so"), find_library("libdaplsoft.so")};
  std::array<void*, kDeepest> frames{};
  const int depth = ::backtrace(frames.data(), kDeepest);
  for (int i = 0; i < depth; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    for (const Range& range : ranges)
      if (address >= range.begin && address < range.end) return true;
  }
  return false;
}

bool fails(const char* name) {
  if (fails_at.load(std::memory_order_relaxed) == 0 || inside) return false;
  inside = true;
  const bool ours = is_ours();
  inside = false;
  if (!ours || calls.fetch_add(1) + 1 != fails_at.load()) return false;
  failed.store(name);
  return true;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (fails("operator new")) throw std::bad_alloc();
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t))
    memory = std::malloc(size != 0 ? size : 1);
  else if (::posix_memalign(&memory, alignment, size) != 0)
    memory = nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

unsigned descriptors() {
  unsigned count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

unsigned threads() {
  unsigned count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

// A thread that has been joined may still be visible for a moment.
unsigned threads_left(unsigned before) {
  for (int tries = 0; tries < 100 && threads() != before; ++tries) ::usleep(10000);
  return threads() - before;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 0); }
void* operator new[](std::size_t size) { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
// Like that of the library, which sanitizers replace by one that does not call the function above.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& none) noexcept {
  return operator new(size, none);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// Exported by the program, or they would not take precedence. The sanitizers need some of these
// calls before they can be replaced.
#ifndef UDAPL_SANITIZED
#pragma GCC visibility push(default)
#endif
extern "C" {

#define FAULTS_CALL(result, name, code, parameters, arguments)  \
  result name parameters {                                      \
    static const auto next = real<result(*) parameters>(#name); \
    if (fails(#name)) {                                         \
      errno = code;                                             \
      return static_cast<result>(-1);                           \
    }                                                           \
    return next arguments;                                      \
  }

FAULTS_CALL(int, socket, EMFILE, (int domain, int type, int protocol), (domain, type, protocol))
FAULTS_CALL(int, accept4, EMFILE, (int fd, sockaddr* address, socklen_t* size, int flags),
            (fd, address, size, flags))
FAULTS_CALL(int, epoll_create1, EMFILE, (int flags), (flags))
FAULTS_CALL(int, eventfd, EMFILE, (unsigned value, int flags), (value, flags))
FAULTS_CALL(int, memfd_create, EMFILE, (const char* name, unsigned flags), (name, flags))

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  static const auto next = real<int (*)(int, int, int, epoll_event*)>("epoll_ctl");
  if (operation == EPOLL_CTL_ADD && fails("epoll_ctl")) {
    errno = ENOSPC;
    return -1;
  }
  return next(epoll, operation, fd, event);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  static const auto next =
      real<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  if (fails("pthread_create")) return EAGAIN;
  return next(thread, attributes, start, argument);
}

void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
  static const auto next = real<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap");
  if (fails("mmap")) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return next(address, length, protection, flags, fd, offset);
}

#ifndef UDAPL_SANITIZED
void* __libc_calloc(std::size_t count, std::size_t size);

// Also called by the C library itself, as when it registers the destructor of a thread's variable.
void* calloc(std::size_t count, std::size_t size) {
  if (fails("calloc")) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_calloc(count, size);
}
#endif

// ---- functions that the scenarios call --------------------------------------------------------

void verbs_mock_fail_at(unsigned n) {
  std::array<void*, 4> frames{};
  static_cast<void>(::backtrace(frames.data(), 4));  // its first call loads a library
  calls.store(0);
  if (n != 0) failed.store(nullptr);
  fails_at.store(n);
}

const char* verbs_mock_failed_call() { return failed.load(); }

// The number of descriptors and threads beyond those that remain after the first run.
unsigned verbs_mock_live(char* text, std::size_t size) {
  static const unsigned descriptors_before = descriptors();
  static const unsigned threads_before = threads();
  const unsigned more_descriptors = descriptors() - descriptors_before;
  const unsigned more_threads = threads_left(threads_before);
  if (text != nullptr)
    std::snprintf(text, size, "descriptors %u, threads %u", more_descriptors, more_threads);
  return more_descriptors + more_threads;
}

// Have an effect only with the doubles.
void verbs_mock_set_fabric(verbs_mock_fabric) {}
unsigned verbs_mock_connections(verbs_mock_connection*, unsigned) { return 0; }

}  // extern "C"
#ifndef UDAPL_SANITIZED
#pragma GCC visibility pop
#endif
