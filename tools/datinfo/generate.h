// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "machine.h"

namespace datinfo {

// Returns a dat.conf with entries for these ports and interfaces: RDMA devices first, because
// programs that accept any adapter try from the top, then the software RNIC on each interface, on
// loopback last. Ports without a network interface become comments. No side effects.
[[nodiscard]] std::string generate(const std::vector<RdmaPort>& ports,
                                   const std::vector<Netdev>& netdevs);

}  // namespace datinfo
