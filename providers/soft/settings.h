// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace udapl::soft {

// The settings of an adapter that an administrator can change in the seventh field of its dat.conf
// entry. They are fixed while the adapter is open.
struct Settings {
  // How the bytes of a connection travel.
  enum class Path : std::uint8_t {
    kTcp,   // always over TCP
    kAuto,  // through shared memory if both ends are on this host and it is available, else TCP
    kShm    // only through shared memory; a connection without it fails
  };

  // Which requests complete when the peer has placed their data. The others complete when the
  // transport has accepted it (docs/adr/0013, 0084).
  enum class DelayedAck : std::uint8_t {
    kOff,     // none, except RDMA Writes through shared memory
    kWrites,  // RDMA Writes
    kOn       // Sends, too, unless the consumer sets the EP attribute delayed_ack to "false"
  };

  static constexpr int kMaxHalfOpen = 1024;

  // crc=on|off: whether we request CRC32C. It is also used whenever the peer requests it.
  bool crc = true;
  // path=tcp|auto|shm (docs/adr/0033).
  Path path = Path::kAuto;
  // direct=on|off: whether a peer on this host may access registered memory directly through the
  // kernel once it has been granted access, and this side the peer's memory (docs/adr/0035);
  // whether the payload of large messages is lent (docs/adr/0036).
  bool direct = true;
  // fallback=on|off: whether to connect once more with MPA revision 1 if a peer closes the
  // connection when it gets a Request of revision 2.
  bool revision1_fallback = true;
  // delayed_ack=off|writes|on.
  DelayedAck delayed_ack = DelayedAck::kWrites;
  // drain=SECONDS: the time without any progress after which a graceful disconnect breaks the
  // connection; 0: it waits for ever (docs/adr/0017).
  std::chrono::milliseconds drain_limit = std::chrono::seconds(30);
  // no_receive=wait|break: whether a message that finds no receive waits for one (docs/adr/0022),
  // or breaks the connection, as iWARP specifies.
  bool no_receive_breaks = false;
  // half_open=N: the maximum number of connections per listener whose MPA Request is not complete.
  // A further connection waits in the TCP backlog, or replaces the oldest one from the network that
  // has most of them.
  int half_open_limit = 128;
  // peer_timeout=SECONDS: the connection breaks if for this long the peer's host does not answer,
  // or the peer does not continue what it has begun: a frame, or a message in a buffer of an SRQ
  // (docs/adr/0042, 0057); 0: never.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(20);
  // staging=MB: memory for input that was received but not yet processed, for all connections
  // together. If it is used up, buffers do not grow, and a connection breaks after one second if
  // its peer stalls within a frame in a large buffer.
  int staging_mb = 128;
  // Time limit for a peer's complete MPA Request. Not configurable.
  std::chrono::milliseconds handshake_time = std::chrono::seconds(5);
};

// As in dat.conf.
[[nodiscard]] const char* name(Settings::Path path) noexcept;
[[nodiscard]] const char* name(Settings::DelayedAck which) noexcept;

// Parses the settings in `ia_params`: "<device> [<port>] [<name>=<value> ...]", separated by blanks
// and tabs; ignores device and port. INVALID_PARAMETER, with the reason as its cause, if a name is
// unknown or repeated, or a value is invalid.
Result<Settings> read_settings(std::string_view ia_params);

// The time that an accepted peer has for its first message, the same as the default of the verbs
// provider. It must be longer than 6 s: TCP repeats a message that was lost a few times only then.
inline constexpr auto kFirstMessageLimit = std::chrono::milliseconds(15'000);

// Looks up an environment variable; returns null if it is not set.
using Lookup = std::function<const char*(const char* name)>;

// Returns how long a message may wait for a receive: DAPL_RNR_RETRY (0 to 7; 7, the default, means
// for ever) times the pause that DAPL_RNR_TIMER encodes (InfiniBand's code, 0 to 31, default 12:
// 0.64 ms). nullopt: for ever; 0: messages do not wait. An invalid value is traced and ignored.
std::optional<std::chrono::microseconds> no_receive_limit(const Settings& settings,
                                                          const Lookup& lookup);

// Returns DAPL_CM_RTU_TIMEOUT_MS, or kFirstMessageLimit. An invalid value is traced and ignored.
std::chrono::milliseconds first_message_limit(const Lookup& lookup);

}  // namespace udapl::soft
