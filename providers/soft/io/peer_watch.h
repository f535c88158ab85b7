// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/reactor.h"

#include <atomic>
#include <chrono>
#include <optional>

namespace udapl::soft {

// Resets a TCP connection when the peer's host no longer answers. TCP_USER_TIMEOUT would do so,
// too, but it also ends a connection whose peer's host answers while the peer's program does not
// read (docs/adr/0042).
//
// While bytes are unacknowledged, a timer looks at the kernel's counters eight times per time
// limit. An idle connection has no timer, only keepalive.
class PeerWatch {
 public:
  // Does not own the socket, which must be open until the destructor has returned.
  PeerWatch(Reactor& reactor, int socket) noexcept
      : socket_(socket), timer_(reactor, Call::to<&PeerWatch::look>(this)) {}

  // Called when the socket is connected, before anything is sent. 0: only TCP's own limits apply.
  void start(std::chrono::milliseconds limit) noexcept;
  // Called whenever bytes were sent, by one thread at a time.
  void sent() noexcept {
    if (!watches_.load(std::memory_order_relaxed)) [[unlikely]]
      begin();
  }
  // Whether this has reset the connection. The owner of the socket finds the reset when the reactor
  // reports it, or when it reads or writes.
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_.load(std::memory_order_relaxed); }

 private:
  void begin() noexcept;
  void look() noexcept;
  void not_due() noexcept;
  void give_up() noexcept;
  [[nodiscard]] bool has_unacknowledged() const noexcept;

  const int socket_;
  std::chrono::milliseconds limit_{};
  std::atomic<bool> watches_{true};  // true also while there is no time limit
  std::atomic<bool> gave_up_{false};
  // Used by the thread that has set watches_, then by the timer's calls.
  Clock::time_point silent_since_;     // when the peer's host was last heard, or the watch began
  std::optional<int> asked_when_due_;  // the number of unanswered questions when the limit passed
  bool asked_once_more_ = false;       // since then, the kernel had asked again at the last look
  Timer timer_;                        // last: it calls this object
};

}  // namespace udapl::soft
