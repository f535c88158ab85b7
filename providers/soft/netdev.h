// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"

#include <string>
#include <string_view>

namespace udapl::soft {

// The network interface and address of an adapter. The seventh field of a dat.conf entry names
// them.
struct Netdev {
  std::string name;  // of the interface that has the address
  transport::SocketAddress address;
  int mtu = 0;  // of the interface, bytes; 0: unknown
};

// Finds the address for `ia_params`: "<device> <port>"; the port is ignored. <device> is taken for
// the first of these that matches: the name of an interface ("eth0": its IPv4 address, else its
// IPv6 address, global before link-local); an address of this machine ("192.0.2.7", "2001:db8::7",
// "fe80::1%eth0"); a host name of this machine. If none matches, fails with INVALID_ADDRESS, and an
// error trace lists the interfaces of this machine. INVALID_PARAMETER if no device is given. Blocks
// while a host name is looked up.
Result<Netdev> find_netdev(std::string_view ia_params);

}  // namespace udapl::soft
