// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connections of the client. Throws the same exceptions as group.h.
#pragma once

#include "runner.h"

namespace datperf {

/** Requests a connection to the server. */
void request(const dat::Endpoint& endpoint, const Target& target, const Hello& hello);
/** The next connection event; nullopt if none arrives within `patience`. */
[[nodiscard]] std::optional<dat::Event> next_event(const dat::Queue& queue, Waiting waiting,
                                                   std::chrono::seconds patience);
/** Throws Trouble unless `event` reports an established connection. */
[[nodiscard]] dat::Established established_of(const std::optional<dat::Event>& event,
                                              const Target& target);
/** Disconnects `endpoint` and waits for the end of the connection. Ignores errors. */
void part(const dat::Endpoint& endpoint, const dat::Queue& queue, std::chrono::seconds patience);

}  // namespace datperf
