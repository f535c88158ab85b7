// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "socket_server.h"
#include "wire.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <exception>
#include <vector>

namespace datperf {

namespace {

constexpr std::size_t kMostPeers = 256;

Socket listen_at(std::uint16_t port) {
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  any.sin6_addr = in6addr_any;
  const int fd = socket.descriptor();
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(fd, 128) != 0)
    fail_socket("listen");
  return socket;
}

}  // namespace

SocketServer::SocketServer(std::uint16_t port)
    : listener_(listen_at(port)), thread_(&SocketServer::accept_all, this) {}

SocketServer::~SocketServer() {
  stop_ = true;
  thread_.join();
  for (Peer& peer : peers_) {
    ::shutdown(peer.socket.descriptor(), SHUT_RDWR);
    peer.thread.join();
  }
}

void SocketServer::accept_all() {
  while (!stop_) {
    pollfd ready{listener_.descriptor(), POLLIN, 0};
    if (::poll(&ready, 1, 200) <= 0) continue;
    Socket socket(::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      if (peer->over) peer->thread.join();
      peer = peer->over ? peers_.erase(peer) : std::next(peer);
    }
    if (socket.descriptor() < 0 || peers_.size() >= kMostPeers) continue;
    Peer& peer = peers_.emplace_back(std::move(socket));
    peer.thread = std::thread(&SocketServer::answer, std::ref(peer));
  }
}

void SocketServer::answer(Peer& peer) {
  try {
    answer_case(peer.socket);
  } catch (const std::exception&) {
    // The client has gone or says nonsense, and notices by itself.
  }
  ::shutdown(peer.socket.descriptor(), SHUT_RDWR);
  peer.over = true;
}

// Messages go back one by one; of a stream each window is acknowledged.
void SocketServer::answer_case(const Socket& socket) {
  socket.send_at_once();
  WireBytes start{};
  if (!socket.read(start, Waiting::kBlock)) return;
  const std::optional<Hello> hello = hello_of(start);
  if (!hello) return;
  const Case& what = hello->what;
  const bool stream = what.measure == Measure::kBandwidth;
  std::vector<std::byte> message(what.size);
  for (std::uint32_t taken = 0; socket.read(message, what.waiting);) {
    if (!stream) {
      socket.write(message, what.waiting);
    } else if (++taken == what.window) {
      taken = 0;
      socket.write(std::span(message).first(1), what.waiting);
    }
  }
}

}  // namespace datperf
