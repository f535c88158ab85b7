// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace udapl::soft {

// What an administrator may change for an adapter, in the seventh field of its dat.conf entry;
// fixed while the adapter is open. The defaults are for every use that is not named here.
struct Settings {
  // How the bytes of a connection travel.
  enum class Path : std::uint8_t {
    kTcp,   // always over TCP
    kAuto,  // through shared memory where both ends are on this host and it can be had, else TCP
    kShm    // only through shared memory; what cannot be had so is not connected
  };

  static constexpr int kMaxHalfOpen = 1024;

  // crc=on|off: ask for CRC32C. A peer that asks for it gets it in any case.
  bool crc = true;
  // path=tcp|auto|shm (docs/adr/0033).
  Path path = Path::kAuto;
  // direct=on|off: a peer on this host may reach registered memory by the kernel's means, once it
  // has been let at it, and we may reach its (docs/adr/0035); large messages are lent (0036).
  bool direct = true;
  // fallback=on|off: connect once more with MPA revision 1 to a peer that hangs up on revision 2.
  bool revision1_fallback = true;
  // delayed_ack=on|off: EPs have the attribute unless they say otherwise (docs/adr/0013).
  bool delayed_ack = false;
  // drain=SECONDS: a graceful disconnect on which nothing moves for so long breaks the connection;
  // 0: it waits for ever (docs/adr/0017).
  std::chrono::milliseconds drain_limit = std::chrono::seconds(30);
  // no_receive=wait|break: what becomes of a message that finds no receive: it waits for one
  // (docs/adr/0022), or breaks the connection, as iWARP has it.
  bool no_receive_breaks = false;
  // half_open=N: connections per listener whose MPA Request is not complete; others wait in TCP,
  // or take the place of the oldest of the network that holds most.
  int half_open_limit = 128;
  // peer_timeout=SECONDS: a peer that for so long does not take what is sent to it, or does not go
  // on with a frame, or a message in a buffer of an SRQ, that it has begun is given up; 0: never.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(20);
  // staging=MB: memory for what has been received and not been looked at, of all connections
  // together; beyond it buffers do not grow, and peers that stall in a frame get one second.
  int staging_mb = 128;
  // For a peer's complete MPA Request. Not to be set.
  std::chrono::milliseconds handshake_time = std::chrono::seconds(5);
};

[[nodiscard]] const char* name(Settings::Path path) noexcept;  // as in dat.conf

// The settings in `ia_params`: "<device> [<port>] [<name>=<value> ...]", separated by blanks and
// tabs; device and port are not looked at. INVALID_PARAMETER, with the reason as its cause: a name
// that is none of these or comes twice, or a value that it cannot have.
Result<Settings> read_settings(std::string_view ia_params);

// Looks up an environment variable; null: not set.
using Lookup = std::function<const char*(const char* name)>;

// How long a message may wait for a receive: DAPL_RNR_RETRY (0 to 7, the default: for ever) times
// the pause that DAPL_RNR_TIMER stands for (InfiniBand's code, 0 to 31, default 12: 0.64 ms).
// nullopt: for ever; 0: it does not wait. A value that cannot be used is traced and ignored.
std::optional<std::chrono::microseconds> no_receive_limit(const Settings& settings,
                                                          const Lookup& lookup);

}  // namespace udapl::soft
