// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

namespace udapl::soft {

// Our end of the bell between the two sides of a RingStream: a unix socket that the reactor watches
// edge-triggered. Each side rings to wake the other; the kernel closes the end of a peer that dies.
//
// The bytes that the peer sends to ring are read only now and then: a read after each of them would
// add a tenth to the time of a message between two sides that sleep. Several rings may cause a
// single report of the reactor. The peer rings at most twice per rest, so the socket's buffer,
// which holds far more, does not fill up.
//
// Not thread-safe: used under the lock of the stream that owns it.
class Bell {
 public:
  // `socket` stays open as long as the bell is used.
  explicit Bell(int socket) noexcept : socket_(socket) {}

  // Wakes the peer.
  void ring() const noexcept;
  // Called when the reactor has reported a ring, and before this side rests. Now and then these
  // call drain(). They return false if it has found the peer's end closed.
  [[nodiscard]] bool on_report() noexcept;
  [[nodiscard]] bool on_rest() noexcept;
  // Reads the rings. Returns false if the peer's end is closed.
  [[nodiscard]] bool drain() noexcept;
  // Whether the peer's end is closed. Must be checked when the reactor reports that: the report may
  // be late, and concern the previous stream of the same handler.
  [[nodiscard]] bool ended() const noexcept;

 private:
  int socket_;
  std::uint32_t reports_since_drained_ = 0;
  std::uint32_t rests_since_drained_ = 0;
};

}  // namespace udapl::soft
