// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/nonblocking/system_log.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace udapl {

namespace {

// For a log that accepts connections, as that of some daemons.
bool log_by_stream(const sockaddr_un& address, const char* text, std::size_t length) noexcept {
  const Fd stream = Fd::made(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return stream.valid() &&
         ::connect(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
             0 &&
         ::send(stream.get(), text, length + 1, MSG_NOSIGNAL) == static_cast<ssize_t>(length + 1);
}

}  // namespace

Fd open_log_socket() noexcept { return Fd::made(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

bool write_to_log(int socket, const char* path, int priority, std::string_view line) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char date[32];
  std::strftime(date, sizeof date, "%h %e %T", &local);
  char text[1536];
  const int length = std::snprintf(text, sizeof text, "<%d>%s %s[%d]: %.*s", priority, date,
                                   program_invocation_short_name, ::getpid(),
                                   static_cast<int>(line.size()), line.data());
  if (length < 0) return false;
  const std::size_t sent = std::min(static_cast<std::size_t>(length), sizeof text - 1);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (::sendto(socket, text, sent, MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), sizeof address) >= 0)
    return true;
  return errno == EPROTOTYPE && log_by_stream(address, text, sent);
}

}  // namespace udapl
