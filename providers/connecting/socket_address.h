// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/cm.h"

#include <string>

// How addresses are written and compared.
namespace udapl {

// "192.0.2.7", "fe80::1%eth0"; with a port that is not 0 "192.0.2.7:5000", "[fe80::1%eth0]:5000".
[[nodiscard]] std::string to_text(const transport::SocketAddress& address);

// Same family and host? The ports do not matter; a missing IPv6 scope matches any.
[[nodiscard]] bool same_host(const transport::SocketAddress& a,
                             const transport::SocketAddress& b) noexcept;

// 0.0.0.0, ::, multicast, the limited broadcast address, or no IP address at all.
[[nodiscard]] bool is_no_host(const transport::SocketAddress& address) noexcept;

}  // namespace udapl
