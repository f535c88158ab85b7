// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The counterparts of client_runner.cpp and probe_runner.cpp for sockets.
#include "runner.h"
#include "socket.h"

#include <cstring>

namespace datperf {

namespace {

Socket connect_to(const Target& target) {
  sockaddr_storage address = target.address;
  // The port has the same offset in both address families.
  reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(target.port);
  Socket socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{static_cast<time_t>(target.patience.count()), 0};
  const socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (socket.descriptor() < 0 ||
      ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      ::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    fail_socket("connect; is the server run with --sockets?");
  socket.send_at_once();
  return socket;
}

class SocketRunner : public Runner {
 public:
  SocketRunner(const Target& target, const Case& what)
      : what_(what), socket_(connect_to(target)), message_(what.size) {
    socket_.write(encode(Hello{Role::kMember, what, 0, 0, 0}), Waiting::kBlock);
  }

  Round run(const Limit& limit) override {
    return what_.measure == Measure::kLatency ? latency(limit) : bandwidth(limit);
  }

 private:
  Round latency(const Limit& limit) {
    Round round;
    const auto start = Clock::now();
    auto now = start;
    while (!limit.reached(round.operations, now)) {
      const auto before = Clock::now();
      socket_.write(message_, what_.waiting);
      receive(message_);
      now = Clock::now();
      round.samples.push_back(us_between(before, now) / 2);
      ++round.operations;
    }
    round.seconds = seconds_between(start, now);
    return round;
  }

  // At most two windows are in flight, as with DAT.
  Round bandwidth(const Limit& limit) {
    Round round;
    std::uint32_t windows = 0;
    const auto start = Clock::now();
    for (auto now = start; !limit.reached(round.operations, now); now = Clock::now()) {
      for (std::uint32_t i = 0; i < what_.window; ++i) socket_.write(message_, what_.waiting);
      round.operations += what_.window;
      if (++windows == 2) acknowledged(windows);
    }
    while (windows > 0) acknowledged(windows);
    round.seconds = seconds_between(start, Clock::now());
    return round;
  }
  void acknowledged(std::uint32_t& windows) {
    std::byte byte{};
    receive({&byte, 1});
    --windows;
  }
  void receive(std::span<std::byte> bytes) {
    if (!socket_.read(bytes, what_.waiting)) throw Trouble("socket: the server has closed");
  }

  Case what_;
  Socket socket_;
  std::vector<std::byte> message_;
};

class SocketProbe : public Runner {
 public:
  explicit SocketProbe(const Target& target) : target_(target) {}

  Round run(const Limit& limit) override {
    Round round;
    const auto start = Clock::now();
    auto now = start;
    while (!limit.reached(round.operations, now)) {
      const auto before = Clock::now();
      const Socket socket = connect_to(target_);
      round.samples.push_back(us_between(before, Clock::now()));
      ::shutdown(socket.descriptor(), SHUT_WR);
      std::byte byte{};
      [[maybe_unused]] const bool more = socket.read({&byte, 1}, Waiting::kBlock);
      ++round.operations;
      now = Clock::now();
    }
    round.seconds = seconds_between(start, now);
    return round;
  }

 private:
  Target target_;
};

}  // namespace

std::unique_ptr<Runner> make_socket_runner(const Target& target, const Case& what) {
  if (what.measure == Measure::kConnections) return std::make_unique<SocketProbe>(target);
  return std::make_unique<SocketRunner>(target, what);
}

}  // namespace datperf
