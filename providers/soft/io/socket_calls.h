// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/not_cancelled.h"

// recv() and send() on a connected socket, as plain system calls. The functions of the C library
// are cancellation points, which costs a locked instruction before and after each call. They are
// used only under ThreadSanitizer, which learns the order of threads from them, and on machines
// where the system calls have no numbers of their own.
namespace udapl::soft {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UDAPL_SOCKET_FUNCTIONS
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(SYS_recvfrom) || !defined(SYS_sendto)
#define UDAPL_SOCKET_FUNCTIONS
#endif

#ifdef UDAPL_SOCKET_FUNCTIONS
#undef UDAPL_SOCKET_FUNCTIONS

inline ssize_t receive_from(int fd, void* to, std::size_t size, int flags) noexcept {
  const NotCancelled scope;
  return ::recv(fd, to, size, flags);
}
inline ssize_t send_to(int fd, const void* from, std::size_t size, int flags) noexcept {
  const NotCancelled scope;
  return ::send(fd, from, size, flags);
}

#else

inline ssize_t receive_from(int fd, void* to, std::size_t size, int flags) noexcept {
  return ::syscall(SYS_recvfrom, fd, to, size, flags, nullptr, nullptr);
}
inline ssize_t send_to(int fd, const void* from, std::size_t size, int flags) noexcept {
  return ::syscall(SYS_sendto, fd, from, size, flags, nullptr, 0);
}

#endif

}  // namespace udapl::soft
