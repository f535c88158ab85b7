// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "socket.h"
#include "group.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace datperf {

namespace {

int flags_of(Waiting waiting) { return waiting == Waiting::kPoll ? MSG_DONTWAIT : 0; }

bool again(Waiting waiting) {
  return errno == EINTR || (waiting == Waiting::kPoll && errno == EAGAIN);
}

}  // namespace

void fail_socket(const char* what) {
  throw Trouble(std::string("socket: ") + what + ": " + std::strerror(errno));
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Socket::send_at_once() const {
  const int on = 1;
  if (::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    fail_socket("TCP_NODELAY");
}

void Socket::write(std::span<const std::byte> bytes, Waiting waiting) const {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(descriptor_, bytes.data(), bytes.size(), flags_of(waiting) | MSG_NOSIGNAL);
    if (sent < 0 && !again(waiting)) fail_socket("send");
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

bool Socket::read(std::span<std::byte> bytes, Waiting waiting) const {
  const std::size_t whole = bytes.size();
  while (!bytes.empty()) {
    const ssize_t got = ::recv(descriptor_, bytes.data(), bytes.size(), flags_of(waiting));
    if (got == 0 && bytes.size() == whole) return false;
    if (got == 0) throw Trouble("socket: the peer closed in the middle");
    if (got < 0 && !again(waiting)) fail_socket("recv");
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace datperf
