// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "socket_server.h"
#include "group.h"
#include "wire.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <exception>
#include <vector>

namespace datperf {

namespace {

constexpr std::size_t kMaxPeers = 256;

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

// Sets how long a read may wait; 0 means forever.
void limit_reads(const Socket& socket, std::chrono::seconds limit) {
  const timeval value{static_cast<time_t>(limit.count()), 0};
  if (::setsockopt(socket.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value) != 0)
    fail_socket("SO_RCVTIMEO");
}

// One client's share of the memory for all clients. Throws Trouble if too little is left.
class Share {
 public:
  Share(std::atomic<std::uint64_t>& room, std::uint64_t size) : room_(room), size_(size) {
    std::uint64_t there = room_;
    do {
      if (there < size_) throw Trouble("no memory is left for this client");
    } while (!room_.compare_exchange_weak(there, there - size_));
  }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { room_ += size_; }

 private:
  std::atomic<std::uint64_t>& room_;
  std::uint64_t size_;
};

}  // namespace

SocketServer::SocketServer(std::uint16_t port, std::chrono::seconds patience, std::uint64_t memory)
    : listener_(listen_at(port)),
      patience_(patience),
      room_(memory),
      thread_(&SocketServer::accept_all, this) {}

SocketServer::~SocketServer() {
  stop_ = true;
  thread_.join();
  for (Peer& peer : peers_) {
    ::shutdown(peer.socket.descriptor(), SHUT_RDWR);
    peer.thread.join();
  }
}

// If there are kMaxPeers clients already, further ones wait in the listener's backlog.
void SocketServer::accept_all() {
  while (!stop_) {
    join_finished();
    if (peers_.size() >= kMaxPeers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    pollfd ready{listener_.descriptor(), POLLIN, 0};
    if (::poll(&ready, 1, 200) <= 0) continue;
    Socket socket(::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.descriptor() < 0) continue;
    Peer& peer = peers_.emplace_back(std::move(socket));
    peer.thread = std::thread([this, &peer] { answer(peer); });
  }
}

void SocketServer::join_finished() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (peer->over) peer->thread.join();
    peer = peer->over ? peers_.erase(peer) : std::next(peer);
  }
}

void SocketServer::answer(Peer& peer) {
  try {
    peer.socket.send_at_once();
    answer_client(peer.socket, patience_, room_);
  } catch (const std::exception&) {
    // The client has gone or sent nonsense; it notices the closed connection.
  }
  ::shutdown(peer.socket.descriptor(), SHUT_RDWR);
  peer.over = true;
}

void answer_client(const Socket& socket, std::chrono::seconds patience,
                   std::atomic<std::uint64_t>& room) {
  WireBytes start{};
  limit_reads(socket, patience);
  if (!socket.read(start, Waiting::kBlock)) return;
  limit_reads(socket, std::chrono::seconds(0));
  const std::optional<Hello> hello = hello_of(start);
  if (!hello) return;
  const Case& what = hello->what;
  const bool stream = what.measure == Measure::kBandwidth;
  const Share share(room, what.size);
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
