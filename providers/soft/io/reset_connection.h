// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace udapl::soft {

// Ends a TCP connection with a RST, as close() does with SO_LINGER of 0 s, but keeps the
// descriptor. What was not sent or read is lost. Makes a plain system call, because connect() of
// the C library is a cancellation point, and ThreadSanitizer would assume that it makes a new
// socket, which no other thread may be using.
inline void reset_connection(int socket) noexcept {
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  ::syscall(SYS_connect, socket, &nowhere, sizeof nowhere);
}

}  // namespace udapl::soft
