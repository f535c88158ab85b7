// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/cm.h"

#include <string>

// Formats and compares addresses.
namespace udapl {

// "192.0.2.7", "fe80::1%eth0"; with a nonzero port "192.0.2.7:5000", "[fe80::1%eth0]:5000".
[[nodiscard]] std::string to_text(const transport::SocketAddress& address);

// Returns whether family and host are equal. Ignores the ports; a missing IPv6 scope matches any.
[[nodiscard]] bool same_host(const transport::SocketAddress& a,
                             const transport::SocketAddress& b) noexcept;

// Adapts a peer's address to that of the adapter: converts an IPv4-mapped IPv6 address to IPv4, and
// gives a link-local address without a scope the adapter's scope.
[[nodiscard]] transport::SocketAddress adapted_to(const transport::SocketAddress& local,
                                                  const transport::SocketAddress& remote) noexcept;

// Returns true for 127.0.0.0/8 and ::1.
[[nodiscard]] bool is_loopback(const transport::SocketAddress& address) noexcept;

// Returns true for 0.0.0.0, ::, multicast, the limited broadcast address, and any other family.
[[nodiscard]] bool is_no_host(const transport::SocketAddress& address) noexcept;

}  // namespace udapl
