// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// Our end of the bell between the two sides of a RingStream: a unix socket that the reactor watches
// edge-triggered. Each side rings to wake the other; the kernel closes the end of a peer that dies.
//
// The rings are seldom read: reading after each of them would take a tenth of the time that a
// message takes if both sides sleep. Some may not be reported one by one; the peer rings at most
// twice per rest, and the buffer of the socket holds far more rings than remain unread here.
//
// Not thread-safe: used like the stream that owns it.
class Bell {
 public:
  // `socket` stays open as long as the bell is used.
  explicit Bell(int socket) noexcept : socket_(socket) {}

  // Wakes the peer.
  void ring() const noexcept;
  // The reactor has reported a ring, or this side is going to rest: reads the rings if it is time.
  // Returns false if the peer's end is closed.
  [[nodiscard]] bool on_report() noexcept;
  [[nodiscard]] bool on_rest() noexcept;
  // Reads the rings. Returns false if the peer's end is closed.
  [[nodiscard]] bool drain() noexcept;
  // Whether the peer's end is closed. To be asked if the reactor says so: its report may come late,
  // and concern the previous stream of the same handler.
  [[nodiscard]] bool ended() const noexcept;

 private:
  int socket_;
  std::uint32_t reports_since_drained_ = 0;
  std::uint32_t rests_since_drained_ = 0;
};

}  // namespace udapl::soft
