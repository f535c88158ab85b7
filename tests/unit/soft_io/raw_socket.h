// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "dapl/transport/cm.h"
#include "providers/soft/iwarp/mpa_frame.h"
#include "tests/unit/soft_io/fake_qp.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>

namespace udapl::soft::test {

inline transport::SocketAddress ipv4(const char* host, std::uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  BOOST_REQUIRE_EQUAL(::inet_pton(AF_INET, host, &address.sin_addr), 1);
  return transport::SocketAddress::from(reinterpret_cast<const sockaddr*>(&address));
}
inline transport::SocketAddress ipv6(const char* host, std::uint16_t port = 0) {
  transport::SocketAddress address;
  address.storage.sin6_family = AF_INET6;
  address.set_port(port);
  BOOST_REQUIRE_EQUAL(::inet_pton(AF_INET6, host, &address.storage.sin6_addr), 1);
  return address;
}

inline Bytes encoded(const iwarp::MpaFrame& frame) {
  std::array<std::byte, iwarp::kMpaMaxFrameSize> room;
  const std::size_t size = iwarp::encode(frame, room);
  BOOST_REQUIRE(size > 0);
  return {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size)};
}

// From now on the socket ignores segments of which headers and data have more than `size` bytes, as
// if they were lost. A socket that it accepts does the same.
inline void lose_longer_than(int socket, std::uint32_t size) {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_LEN, 0),
                        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, size, 1, 0),
                        BPF_STMT(BPF_RET | BPF_K, 4096), BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog program{std::size(code), code};
  BOOST_REQUIRE(::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
}
inline void lose_all(int socket) { lose_longer_than(socket, 0); }
// All but what opens and acknowledges: none of these has an MPA Request, of 24 bytes.
inline void lose_data(int socket) { lose_longer_than(socket, 44); }
inline void lose_nothing(int socket) {
  const int none = 0;
  BOOST_REQUIRE(::setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none) == 0);
}

// A foreign peer: an ordinary blocking socket. Receiving fails after kPatience.
class RawSocket {
 public:
  RawSocket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) { limit(); }
  explicit RawSocket(Fd fd) : fd_(std::move(fd)) { limit(); }

  [[nodiscard]] bool connect(const transport::SocketAddress& to) {
    return ::connect(fd_.get(), to.get(), to.size()) == 0;
  }
  // Connects from the local address `from`.
  void connect_from(const transport::SocketAddress& from, const transport::SocketAddress& to) {
    BOOST_REQUIRE(::bind(fd_.get(), from.get(), from.size()) == 0);
    BOOST_REQUIRE(connect(to));
  }
  // Listens on a free port of 127.0.0.1 and returns its address.
  transport::SocketAddress listen(int backlog = 16) {
    auto place = ipv4("127.0.0.1");
    BOOST_REQUIRE(::bind(fd_.get(), place.get(), place.size()) == 0);
    BOOST_REQUIRE(::listen(fd_.get(), backlog) == 0);
    socklen_t size = sizeof place.storage;
    BOOST_REQUIRE(::getsockname(fd_.get(), place.get(), &size) == 0);
    return place;
  }
  RawSocket accept() { return RawSocket(Fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC))); }
  void send(std::span<const std::byte> bytes) {
    [[maybe_unused]] const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Receives `size` bytes, or fewer if the peer has closed the connection.
  Bytes receive(std::size_t size) {
    Bytes result(size);
    std::size_t have = 0;
    while (have < size) {
      const auto got = ::recv(fd_.get(), result.data() + have, size - have, 0);
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    result.resize(have);
    return result;
  }
  // Returns whether the peer closed or reset the connection without sending anything.
  [[nodiscard]] bool closed() {
    std::byte one;
    const auto got = ::recv(fd_.get(), &one, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  // Returns whether the peer closed the connection, and did not reset it, without sending anything.
  [[nodiscard]] bool ended() {
    std::byte one;
    return ::recv(fd_.get(), &one, 1, 0) == 0;
  }
  // Returns whether the peer reset the connection without sending anything.
  [[nodiscard]] bool reset() {
    std::byte one;
    return ::recv(fd_.get(), &one, 1, 0) < 0 && errno == ECONNRESET;
  }
  void reset_on_close() {
    const linger hard{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  void close() { fd_.reset(); }
  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  void limit() {
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  Fd fd_;
};

}  // namespace udapl::soft::test
