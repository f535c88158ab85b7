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

// The object behind a descriptor number of the simulated kernel.
struct Kernel::Descriptor {
  enum class Kind : std::uint8_t { kSocket, kEvent, kEpoll } kind = Kind::kSocket;
  enum class State : std::uint8_t { kNew, kListening, kConnecting, kConnected } state = State::kNew;
  sockaddr_in local{};
  sockaddr_in remote{};
  std::weak_ptr<Descriptor> peer;
  bool client = false;
  bool closed = false;                // by the application
  bool lingers = true;                // false: close() resets
  bool write_closed = false;          // FIN was sent
  bool read_closed = false;           // the peer's FIN has arrived
  int broken = 0;                     // errno of every further call; 0: works
  int pending_error = 0;              // SO_ERROR
  std::string unread;                 // bytes that have arrived
  std::size_t under_way = 0;          // bytes that this end has sent and that have not arrived
  std::uint64_t sent = 0;             // bytes, in total
  bool silent = false;                // bytes that this end sends are lost
  Clock::time_point stalled_until{};  // until then this end's application reads nothing
  Clock::time_point last_arrival{};   // when the last bytes that this end has sent arrive
  std::deque<Ref> backlog;
  std::uint64_t counter = 0;  // of an event descriptor
  std::map<int, epoll_event> watched;
};

// Makes a system call fail.
inline int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace udapl::sim
