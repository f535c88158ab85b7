// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The functions that the linker puts in place of those of the C library. Calls with descriptors
// that are not the simulated kernel's are passed to the real one.
#include "tests/sim/kernel.h"

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

using udapl::sim::Kernel;

namespace {

Kernel& kernel() { return Kernel::instance(); }

// For calls in which the program would sleep for ever, as there is no other thread to wake it.
[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "sim: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" {

int __real_socket(int, int, int);
int __real_bind(int, const sockaddr*, socklen_t);
int __real_close(int);
int __real_ioctl(int, unsigned long, void*);
ssize_t __real_read(int, void*, size_t);
ssize_t __real_write(int, const void*, size_t);

int __wrap_socket(int family, int type, int protocol) {
  return (type & 0xF) == SOCK_STREAM ? kernel().socket() : __real_socket(family, type, protocol);
}
int __wrap_bind(int fd, const sockaddr* address, socklen_t size) {
  return kernel().owns(fd) ? kernel().bind(fd, address) : __real_bind(fd, address, size);
}
int __wrap_listen(int fd, int) { return kernel().listen(fd); }
int __wrap_accept4(int fd, sockaddr* address, socklen_t* size, int) {
  *size = sizeof(sockaddr_in);
  return kernel().accept(fd, address);
}
int __wrap_connect(int fd, const sockaddr* address, socklen_t) {
  return kernel().connect(fd, address);
}
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int) {
  std::string bytes;
  for (size_t i = 0; i < message->msg_iovlen; ++i)
    bytes.append(static_cast<const char*>(message->msg_iov[i].iov_base),
                 message->msg_iov[i].iov_len);
  return kernel().send(fd, bytes.data(), bytes.size());
}
ssize_t __wrap_send(int fd, const void* data, size_t size, int) {
  return kernel().send(fd, data, size);
}
ssize_t __wrap_recv(int fd, void* room, size_t size, int flags) {
  return kernel().receive(fd, room, size, (flags & MSG_PEEK) != 0);
}
long __real_syscall(long, ...);
// The provider makes some of the calls above without the functions of the C library. Fewer than six
// arguments may have been passed.
[[gnu::no_sanitize_address]] long __wrap_syscall(long number, ...) {
  std::array<long, 6> arguments{};
  va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const auto [fd, data, size, flags, address, address_size] = arguments;
  if (number == SYS_recvfrom)
    return __wrap_recv(static_cast<int>(fd), reinterpret_cast<void*>(data),
                       static_cast<size_t>(size), static_cast<int>(flags));
  if (number == SYS_sendto)
    return __wrap_send(static_cast<int>(fd), reinterpret_cast<const void*>(data),
                       static_cast<size_t>(size), static_cast<int>(flags));
  return __real_syscall(number, fd, data, size, flags, address, address_size);
}
int __wrap_shutdown(int fd, int how) {
  if (how != SHUT_WR) refuse("shutdown of another kind than SHUT_WR");
  return kernel().shutdown_write(fd);
}
int __wrap_close(int fd) { return kernel().owns(fd) ? kernel().close(fd) : __real_close(fd); }
int __wrap_getsockname(int fd, sockaddr* address, socklen_t* size) {
  *size = sizeof(sockaddr_in);
  return kernel().name(fd, address, false);
}
int __wrap_getpeername(int fd, sockaddr* address, socklen_t* size) {
  *size = sizeof(sockaddr_in);
  return kernel().name(fd, address, true);
}
int __wrap_setsockopt(int fd, int level, int option, const void* value, socklen_t) {
  if (level == SOL_SOCKET && option == SO_LINGER && static_cast<const linger*>(value)->l_onoff != 0)
    kernel().linger(fd);
  return 0;
}
int __wrap_getsockopt(int fd, int level, int option, void* value, socklen_t*) {
  if (level == IPPROTO_TCP && option == TCP_INFO) {
    static_cast<tcp_info*>(value)->tcpi_snd_mss = kernel().mss();
    return 0;
  }
  if (level == SOL_SOCKET && option == SO_ERROR) {
    *static_cast<int*>(value) = kernel().take_error(fd);
    return 0;
  }
  errno = ENOPROTOOPT;
  return -1;
}
int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (!kernel().owns(fd)) return __real_ioctl(fd, request, argument);
  if (request != SIOCOUTQ) refuse("an unknown ioctl");
  *static_cast<int*>(argument) = kernel().unacknowledged(fd);
  return 0;
}
ssize_t __wrap_read(int fd, void* room, size_t size) {
  return kernel().owns(fd) ? kernel().read_event(fd) : __real_read(fd, room, size);
}
ssize_t __wrap_write(int fd, const void* data, size_t size) {
  if (!kernel().owns(fd)) return __real_write(fd, data, size);
  kernel().write_event(fd);
  return static_cast<ssize_t>(size);
}
int __wrap_eventfd(unsigned, int) { return kernel().event_descriptor(); }
int __wrap_epoll_create1(int) { return kernel().epoll_create(); }
int __wrap_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return kernel().epoll_control(epoll, operation, fd, event);
}
int __wrap_epoll_wait(int epoll, epoll_event* events, int max, int timeout) {
  if (timeout != 0) refuse("a blocking epoll_wait");
  return kernel().epoll_wait(epoll, events, max);
}
// Service threads do not run: the simulator drives the adapters itself.
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t*, void* (*)(void*), void*) {
  *thread = pthread_self();
  return 0;
}
int __wrap_pthread_join(pthread_t, void**) { return 0; }

int __wrap_pthread_setname_np(pthread_t, const char*) { return 0; }

}  // extern "C"

// std::chrono::steady_clock::now()
udapl::sim::Clock::time_point simulated_now() noexcept
    asm("__wrap__ZNSt6chrono3_V212steady_clock3nowEv");
udapl::sim::Clock::time_point simulated_now() noexcept { return kernel().now(); }
