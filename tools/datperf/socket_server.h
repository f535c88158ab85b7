// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "socket.h"

#include <atomic>
#include <list>
#include <thread>

namespace datperf {

/** Answers sockets, each in a thread of its own, until it is destroyed. */
class SocketServer {
 public:
  /** Of IPv6 and IPv4. Trouble if the port is in use. */
  explicit SocketServer(std::uint16_t port);
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;
  ~SocketServer();

 private:
  struct Peer {
    explicit Peer(Socket of) : socket(std::move(of)) {}
    Socket socket;
    std::atomic<bool> over{false};
    std::thread thread;
  };

  void accept_all();
  static void answer(Peer& peer);
  static void answer_case(const Socket& socket);

  Socket listener_;
  std::atomic<bool> stop_{false};
  std::list<Peer> peers_;  // the thread's own
  std::thread thread_;
};

}  // namespace datperf
