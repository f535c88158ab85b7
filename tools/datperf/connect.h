// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connections of the client. Throws as group.h.
#pragma once

#include "runner.h"

namespace datperf {

/** Asks the server for a connection. */
void request(const dat::Endpoint& endpoint, const Target& target, const Hello& hello);
/** The next event of connections; nothing if none comes for that long. */
[[nodiscard]] std::optional<dat::Event> next_event(const dat::Queue& queue, Waiting waiting,
                                                   std::chrono::seconds patience);
/** Trouble unless `event` tells that a connection is there. */
[[nodiscard]] dat::Established established_of(const std::optional<dat::Event>& event,
                                              const Target& target);
/** Ends `endpoint` in peace and waits for it; errors are left alone. */
void part(const dat::Endpoint& endpoint, const dat::Queue& queue, std::chrono::seconds patience);

}  // namespace datperf
