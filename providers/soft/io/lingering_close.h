// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/io/tcp_stream.h"

#include <chrono>
#include <memory>

namespace udapl::soft {

// The kind of connection that ends. Each kind has its own share of the process's descriptors.
enum class LingerKind : std::uint8_t {
  kConnection,  // it was established, or we requested it
  kStranger     // a request that was refused or rejected: anyone can cause these
};

inline constexpr Clock::duration kLinger = std::chrono::seconds(1);
// How long an adapter that closes, or a process that exits, waits for peers' hosts.
inline constexpr Clock::duration kLingerAtClose = std::chrono::milliseconds(100);

// Ends the stream so that what was sent arrives: sends `rest` and FIN, then reads (and drops) until
// the peer's FIN, for at most `limit`, then closes. A connection lingers for up to 30 times as long
// if the peer's host has not taken everything. Returns at once; the reactor owns the stream. Null
// is ignored. When too many streams linger in the process (a sixteenth of its descriptors for
// strangers and at most 128, a quarter for connections) the oldest of the kind is reset.
void close_gently(std::unique_ptr<TcpStream> stream, LingerKind kind = LingerKind::kConnection,
                  Clock::duration limit = kLinger, KeptBytes rest = {}) noexcept;

// Called before the reactor is destroyed, which closes the streams: waits until the peers' hosts
// have taken everything that its connections sent, for at most `limit`. What they have not taken
// may be lost if they send something to a closed socket.
void await_lingering(const Reactor& reactor, Clock::duration limit) noexcept;

// The same for all reactors, when the process exits without destroying them: the kernel then
// resets streams with unread input. Never waits longer than `limit`, whatever the process was doing
// when it called exit(). In a forked child, waits only for streams of its own.
void await_lingering_at_exit(Clock::duration limit) noexcept;

}  // namespace udapl::soft
