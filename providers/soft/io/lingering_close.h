// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/io/tcp_stream.h"

#include <chrono>
#include <memory>

namespace udapl::soft {

// The kind of connection that ends. Each kind has its own share of the process's descriptors.
enum class LingerKind : std::uint8_t {
  kConnection,  // it was established, or this side requested it
  kStranger     // a request that was refused or rejected; any host can cause these
};

inline constexpr Clock::duration kLinger = std::chrono::seconds(1);
// How long an adapter that closes, or a process that exits, waits for peers' hosts.
inline constexpr Clock::duration kLingerAtClose = std::chrono::milliseconds(100);

// Ends the stream so that what was sent arrives: sends `rest` and FIN, then reads (and drops) until
// the peer's FIN, for at most `limit`, then closes. A stream of kind kConnection lingers for up to
// 30 times as long if the peer's host has not acknowledged everything. Returns at once; the reactor
// then owns the stream. Does nothing if `stream` is null. At most a sixteenth of the process's
// descriptors, and no more than 128, linger as strangers, and at most a quarter as connections;
// beyond that, the oldest stream of the kind is reset.
void close_gently(std::unique_ptr<TcpStream> stream, LingerKind kind = LingerKind::kConnection,
                  Clock::duration limit = kLinger, KeptBytes rest = {}) noexcept;

// Waits until the peers' hosts have acknowledged everything that the lingering connections of this
// reactor sent, for at most `limit`. Called before the reactor is destroyed, which closes the
// streams. Unacknowledged bytes may then be lost: a peer that sends to a closed socket gets a RST.
void await_lingering(const Reactor& reactor, Clock::duration limit) noexcept;

// The same for all reactors, when the process exits without destroying them. Reads the input of the
// streams, because the kernel resets a socket that is closed with unread input. Never waits longer
// than `limit`, even if the lock is never released. In a forked child, waits only for streams of
// the child.
void await_lingering_at_exit(Clock::duration limit) noexcept;

}  // namespace udapl::soft
