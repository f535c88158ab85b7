// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/cm.h"

#include <array>
#include <cstdint>

namespace udapl::soft {

// The unit by which peers are counted where they share a limited resource: the first `ipv4_bits`
// bits (24 or 32) of an IPv4 address; the first 64 bits of a global IPv6 address, because one host
// can use any number of addresses of such a network; any other address as it is.
using Network = std::array<std::uint8_t, 16>;
[[nodiscard]] Network network_of(const transport::SocketAddress& address,
                                 int ipv4_bits = 24) noexcept;

}  // namespace udapl::soft
