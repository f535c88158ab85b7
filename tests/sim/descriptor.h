// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/sim/kernel.h"

#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include <netinet/in.h>

namespace udapl::sim {

// What a descriptor number of the simulated kernel stands for.
struct Kernel::Descriptor {
  enum class Kind : std::uint8_t { kSocket, kEvent, kEpoll } kind = Kind::kSocket;
  enum class State : std::uint8_t { kNew, kListening, kConnecting, kConnected } state = State::kNew;
  sockaddr_in local{};
  sockaddr_in remote{};
  std::weak_ptr<Descriptor> peer;
  bool client = false;
  bool closed = false;               // by the application
  bool lingers = true;               // false: close() resets
  bool write_closed = false;         // FIN is sent
  bool read_closed = false;          // the peer's has arrived
  int broken = 0;                    // errno of every further call
  int pending_error = 0;             // SO_ERROR
  std::string unread;                // arrived
  std::size_t under_way = 0;         // bytes that this end has sent and that have not arrived
  std::uint64_t sent = 0;            // bytes, ever
  bool silent = false;               // what this end sends gets lost
  Clock::time_point deaf_until{};    // this end's application reads nothing before
  Clock::time_point last_arrival{};  // of what this end has sent
  std::deque<Ref> backlog;
  std::uint64_t counter = 0;  // of an event descriptor
  std::map<int, epoll_event> watched;
};

// An error of a system call.
inline int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace udapl::sim
