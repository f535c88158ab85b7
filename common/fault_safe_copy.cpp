// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/fault_safe_copy.h"

#include "common/fd.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace udapl {

namespace {

// Uses syscall(), because the wrappers of the C library are cancellation points, and those of the
// sanitizers read the memory themselves.
bool copy_through_pipe(void* to, const void* from, std::size_t size) noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  const Fd out = Fd::made(ends[0]);
  const Fd in = Fd::made(ends[1]);
  const auto all = static_cast<long>(size);
  return ::syscall(SYS_write, in.get(), from, size) == all &&
         ::syscall(SYS_read, out.get(), to, size) == all;
}

}  // namespace

bool copy_fault_safe(void* to, const void* from, std::size_t size) noexcept {
  const iovec local{to, size};
  const iovec remote{const_cast<void*>(from), size};
  const ssize_t copied = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (copied >= 0) return copied == static_cast<ssize_t>(size);
  return errno != EFAULT && copy_through_pipe(to, from, size);
}

bool copy_text_fault_safe(char* to, const char* from, std::size_t room) noexcept {
  // Whole pages are readable or not, so a string that ends in this page can be read whole.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t done = 0; done < room;) {
    const std::size_t rest_of_page = page - reinterpret_cast<std::uintptr_t>(from + done) % page;
    const std::size_t part = std::min(rest_of_page, room - done);
    if (!copy_fault_safe(to + done, from + done, part)) return false;
    if (std::memchr(to + done, '\0', part) != nullptr) return true;
    done += part;
  }
  return false;
}

}  // namespace udapl
