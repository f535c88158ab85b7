// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/network.h"

#include <cstring>

#include <netinet/in.h>

namespace udapl::soft {

Network network_of(const transport::SocketAddress& address, int ipv4_bits) noexcept {
  constexpr std::size_t kNetworkSize = 8;
  constexpr unsigned char kNoNetwork[kNetworkSize] = {};  // ::1, ::ffff:192.0.2.7
  Network network{};
  if (address.family() == AF_INET) {
    network[10] = network[11] = 0xFF;
    std::memcpy(&network[12], &reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr,
                sizeof(in_addr));
    if (ipv4_bits < 32) network[15] = 0;
    return network;
  }
  if (address.family() != AF_INET6) return network;
  const in6_addr& host = address.storage.sin6_addr;
  const bool global =
      !IN6_IS_ADDR_LINKLOCAL(&host) && std::memcmp(&host, kNoNetwork, kNetworkSize) != 0;
  std::memcpy(network.data(), &host, global ? kNetworkSize : sizeof host);
  return network;
}

}  // namespace udapl::soft
