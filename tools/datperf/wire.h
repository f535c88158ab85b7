// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What client and server say to each other besides the data: the private data of connections, and
// the first bytes of a TCP socket. 32-bit words, big-endian. A group is the connections of one
// thread of the client; the server has a thread for it as well.
#pragma once

#include "plan.h"

#include <optional>
#include <span>

namespace datperf {

inline constexpr std::uint32_t kMagic = 0x64707231;  // "dpr1": protocol version 1
inline constexpr std::size_t kWords = 12;
using WireBytes = std::array<std::byte, kWords * 4>;

enum class Role : std::uint8_t {
  kSession,  // a client, as long as it lives: no data
  kProbe,    // its set-up is being measured: no data
  kMember,   // of a group
};

/** Private data of a request, or the start of a socket. */
struct Hello {
  Role role = Role::kSession;
  Case what;
  std::uint64_t group = 0;
  std::uint64_t address = 0;  // of the client's memory for this connection, what.size bytes
  std::uint32_t context = 0;
};

/** Private data of an accept. */
struct Invitation {
  std::uint64_t address = 0;
  std::uint32_t context = 0;
};

[[nodiscard]] WireBytes encode(const Hello& hello);
/** Nothing if that is no hello, or asks for more than the limits of plan.h. */
[[nodiscard]] std::optional<Hello> hello_of(std::span<const std::byte> bytes);

[[nodiscard]] WireBytes encode(const Invitation& invitation);
[[nodiscard]] std::optional<Invitation> invitation_of(std::span<const std::byte> bytes);

}  // namespace datperf
