// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "socket.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <thread>

namespace datperf {

/** Answers one client until it closes the socket: returns each message or, for a stream,
 *  acknowledges each window. The client must send its Hello within `patience`. The size of its
 *  message is subtracted from `room` while it is connected. Throws Trouble. */
void answer_client(const Socket& socket, std::chrono::seconds patience,
                   std::atomic<std::uint64_t>& room);

/** Accepts sockets and answers each in a thread of its own, until it is destroyed. */
class SocketServer {
 public:
  /** Listens on IPv6 and IPv4. The messages of all clients together may have `memory` bytes. Throws
   *  Trouble if the port is in use. */
  SocketServer(std::uint16_t port, std::chrono::seconds patience, std::uint64_t memory);
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
  void answer(Peer& peer);
  void join_finished();

  Socket listener_;
  std::chrono::seconds patience_;
  std::atomic<std::uint64_t> room_;
  std::atomic<bool> stop_{false};
  std::list<Peer> peers_;  // used by `thread_` only, until it has ended
  std::thread thread_;
};

}  // namespace datperf
