// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "channel.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace conformance {

namespace {

bool wait_readable(int fd, int patience) {
  pollfd ready{fd, POLLIN, 0};
  int count = 0;
  do {
    count = ::poll(&ready, 1, patience);
  } while (count < 0 && errno == EINTR);
  return count > 0;
}

bool read_fully(int fd, int patience, char* into, std::size_t size) {
  while (size > 0) {
    if (!wait_readable(fd, patience)) return false;
    const ssize_t got = ::recv(fd, into, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_fully(int fd, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, from, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

bool send_message(int fd, char kind, std::string_view bytes) {
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(bytes.size()));
  return write_fully(fd, reinterpret_cast<const char*>(&length), sizeof length) &&
         write_fully(fd, &kind, 1) && write_fully(fd, bytes.data(), bytes.size());
}

bool receive_message(int fd, int patience, char& kind, std::string& bytes) {
  std::uint32_t length = 0;
  if (!read_fully(fd, patience, reinterpret_cast<char*>(&length), sizeof length)) return false;
  length = ntohl(length);
  if (length > kLongestMessage || !read_fully(fd, patience, &kind, 1)) return false;
  bytes.resize(length);
  return read_fully(fd, patience, bytes.data(), length);
}

}  // namespace conformance
