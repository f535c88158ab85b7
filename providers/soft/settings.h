// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"

#include <chrono>
#include <string_view>

namespace udapl::soft {

// What an administrator may change for an adapter, in the seventh field of its dat.conf entry;
// fixed while the adapter is open. The defaults are for every use that is not named here.
struct Settings {
  // crc=on|off: ask for CRC32C. A peer that asks for it gets it in any case.
  bool crc = true;
  // fallback=on|off: connect once more with MPA revision 1 to a peer that hangs up on revision 2.
  bool revision1_fallback = true;
  // drain=SECONDS: a graceful disconnect on which nothing moves for so long breaks the connection;
  // 0: it waits for ever (docs/adr/0017).
  std::chrono::milliseconds drain_limit = std::chrono::seconds(30);
  // half_open=N: connections per listener whose MPA Request is not complete; others wait in TCP.
  int half_open_limit = 128;
  // half_open_per_host=N: when those places are taken, a peer address (IPv6: its network of 64
  // bits) that holds more than so many of them loses the oldest.
  int half_open_per_host = 32;
  // For a peer's complete MPA Request. Not to be set.
  std::chrono::milliseconds handshake_time = std::chrono::seconds(5);
};

// The settings in `ia_params`: "<device> [<port>] [<name>=<value> ...]", separated by blanks and
// tabs; device and port are not looked at. INVALID_PARAMETER, with the reason as its cause: a name
// that is none of these or comes twice, or a value that it cannot have.
Result<Settings> read_settings(std::string_view ia_params);

}  // namespace udapl::soft
