// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/interfaces.h"

#include <optional>
#include <vector>

namespace udapl {

// What local_interfaces() returns, for a process that may not use netlink sockets, which getifaddrs
// needs: IPv4 addresses by ioctl, IPv6 addresses from /proc, if it is there. nullopt if the system
// call failed (errno).
[[nodiscard]] std::optional<std::vector<Interface>> interfaces_without_netlink();

}  // namespace udapl
