// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The protocol of client and server, apart from the data: the private data of connections, and the
// first bytes on a TCP socket. 32-bit words, big-endian. The connections of one client thread form
// a group, which also has a thread of its own on the server.
#pragma once

#include "plan.h"

#include <optional>
#include <span>

namespace datperf {

inline constexpr std::uint32_t kMagic = 0x64707232;  // "dpr2": protocol version 2
inline constexpr std::size_t kWords = 12;
using WireBytes = std::array<std::byte, kWords * 4>;

enum class Role : std::uint8_t {
  kSession,  // represents a client as long as it runs; an empty message says that all went well
  kProbe,    // only its set-up is measured; carries no data
  kMember,   // belongs to a group
};

/** Private data of a connection request, or the first bytes on a socket. */
struct Hello {
  Role role = Role::kSession;
  Case what;
  std::uint64_t group = 0;
  std::uint64_t address = 0;  // the client's memory for this connection, what.size bytes
  std::uint32_t context = 0;
};

/** Private data with which the server accepts. */
struct Invitation {
  std::uint64_t address = 0;
  std::uint32_t context = 0;
};

[[nodiscard]] WireBytes encode(const Hello& hello);
/** Returns nullopt if the bytes are no Hello or exceed the limits of plan.h. */
[[nodiscard]] std::optional<Hello> hello_of(std::span<const std::byte> bytes);

[[nodiscard]] WireBytes encode(const Invitation& invitation);
[[nodiscard]] std::optional<Invitation> invitation_of(std::span<const std::byte> bytes);

}  // namespace datperf
