// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace udapl::soft {

// Ends a TCP connection with a RST, as an aborting close() does, but keeps the descriptor. What was
// not sent or read is lost. A plain system call: connect() is a cancellation point, and
// ThreadSanitizer takes it for a new socket, which no other thread may be using.
inline void reset_connection(int socket) noexcept {
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  ::syscall(SYS_connect, socket, &nowhere, sizeof nowhere);
}

}  // namespace udapl::soft
