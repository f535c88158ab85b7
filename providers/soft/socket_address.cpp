// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/socket_address.h"

#include <cstring>

#include <netdb.h>
#include <netinet/in.h>

namespace udapl::soft {

namespace {

const in_addr& ipv4(const transport::SocketAddress& address) noexcept {
  return reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr;
}

}  // namespace

std::string to_text(const transport::SocketAddress& address) {
  char host[NI_MAXHOST];
  if (address.family() == 0 || ::getnameinfo(address.get(), address.size(), host, sizeof host,
                                             nullptr, 0, NI_NUMERICHOST) != 0)
    return "no address";
  if (address.port() == 0) return host;
  std::string text(host);
  if (address.family() == AF_INET6) text.insert(0, 1, '[').push_back(']');
  return text.append(1, ':').append(std::to_string(address.port()));
}

bool same_host(const transport::SocketAddress& a, const transport::SocketAddress& b) noexcept {
  if (a.family() != b.family()) return false;
  if (a.family() == AF_INET) return ipv4(a).s_addr == ipv4(b).s_addr;
  return std::memcmp(&a.storage.sin6_addr, &b.storage.sin6_addr, sizeof(in6_addr)) == 0 &&
         (a.storage.sin6_scope_id == 0 || b.storage.sin6_scope_id == 0 ||
          a.storage.sin6_scope_id == b.storage.sin6_scope_id);
}

bool same_source(const transport::SocketAddress& a, const transport::SocketAddress& b) noexcept {
  constexpr std::size_t kNetworkSize = 8;
  constexpr unsigned char kNoNetwork[kNetworkSize] = {};  // ::1, ::ffff:192.0.2.7
  if (same_host(a, b)) return true;
  if (a.family() != AF_INET6 || b.family() != AF_INET6) return false;
  const in6_addr& host = a.storage.sin6_addr;
  return !IN6_IS_ADDR_LINKLOCAL(&host) && std::memcmp(&host, kNoNetwork, kNetworkSize) != 0 &&
         std::memcmp(&host, &b.storage.sin6_addr, kNetworkSize) == 0;
}

bool is_no_host(const transport::SocketAddress& address) noexcept {
  if (address.family() == AF_INET) {
    const std::uint32_t host = ntohl(ipv4(address).s_addr);
    return host == INADDR_ANY || host == INADDR_BROADCAST || IN_MULTICAST(host);
  }
  if (address.family() != AF_INET6) return true;
  return IN6_IS_ADDR_UNSPECIFIED(&address.storage.sin6_addr) ||
         IN6_IS_ADDR_MULTICAST(&address.storage.sin6_addr);
}

}  // namespace udapl::soft
