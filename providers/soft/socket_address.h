// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/cm.h"

#include <array>
#include <cstdint>
#include <string>

namespace udapl::soft {

// "192.0.2.7", "fe80::1%eth0"; with a port that is not 0 "192.0.2.7:5000", "[fe80::1%eth0]:5000".
[[nodiscard]] std::string to_text(const transport::SocketAddress& address);

// Same family and host? The ports do not matter; a missing IPv6 scope matches any.
[[nodiscard]] bool same_host(const transport::SocketAddress& a,
                             const transport::SocketAddress& b) noexcept;

// What counts as one where peers share something: the first `ipv4_bits` bits (24 or 32) of an IPv4
// address, the network of 64 bits of a global IPv6 address (one host can take as many addresses of
// it as it likes), any other address as it is.
using Network = std::array<std::uint8_t, 16>;
[[nodiscard]] Network network_of(const transport::SocketAddress& address,
                                 int ipv4_bits = 24) noexcept;

// 0.0.0.0, ::, multicast, the limited broadcast address, or no IP address at all.
[[nodiscard]] bool is_no_host(const transport::SocketAddress& address) noexcept;

}  // namespace udapl::soft
