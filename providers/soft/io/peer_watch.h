// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/reactor.h"

#include <atomic>
#include <chrono>
#include <optional>

namespace udapl::soft {

// Gives a TCP connection up when the peer's host no longer answers. TCP_USER_TIMEOUT would do so,
// too, but it also ends connections to hosts that answer, and whose programs do not read
// (docs/adr/0042).
//
// While bytes are unacknowledged, a timer looks at the kernel's counters eight times per time
// limit. An idle connection has no timer, only keepalive.
class PeerWatch {
 public:
  // Does not own the socket, which must be open until the destructor has returned.
  PeerWatch(Reactor& reactor, int socket) noexcept
      : socket_(socket), timer_(reactor, Call::to<&PeerWatch::look>(this)) {}

  // Called when the socket is connected, before it is sent to. 0: TCP's own limits.
  void start(std::chrono::milliseconds limit) noexcept;
  // Called whenever bytes were sent, by one thread at a time.
  void sent() noexcept {
    if (!watches_.load(std::memory_order_relaxed)) [[unlikely]]
      begin();
  }
  // Whether the connection was given up. Then it has been reset, which the socket's owner finds
  // when it is notified, or reads or writes.
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_.load(std::memory_order_relaxed); }

 private:
  void begin() noexcept;
  void look() noexcept;
  void not_due() noexcept;
  void give_up() noexcept;
  [[nodiscard]] bool has_unacknowledged() const noexcept;

  const int socket_;
  std::chrono::milliseconds limit_{};
  std::atomic<bool> watches_{true};  // or there is nothing to watch for
  std::atomic<bool> gave_up_{false};
  // Used by the thread that has set watches_, then by the timer's calls.
  Clock::time_point silent_since_;     // the peer has been, or there was nothing to answer
  std::optional<int> asked_when_due_;  // unanswered questions when the limit had passed
  bool asked_once_more_ = false;       // after that, and before the last look
  Timer timer_;                        // last: it calls this object
};

}  // namespace udapl::soft
