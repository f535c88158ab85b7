// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/connecting/socket_address.h"

#include <cstring>

#include <netdb.h>
#include <netinet/in.h>

namespace udapl {

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

transport::SocketAddress adapted_to(const transport::SocketAddress& local,
                                    const transport::SocketAddress& remote) noexcept {
  const in6_addr& host = remote.storage.sin6_addr;
  if (remote.family() != AF_INET6) return remote;
  transport::SocketAddress result = remote;
  if (local.family() == AF_INET && IN6_IS_ADDR_V4MAPPED(&host)) {
    result = {};
    sockaddr_in plain{};
    plain.sin_family = AF_INET;
    std::memcpy(&plain.sin_addr, &host.s6_addr[12], sizeof plain.sin_addr);
    std::memcpy(&result.storage, &plain, sizeof plain);
  } else if (IN6_IS_ADDR_LINKLOCAL(&host) && remote.storage.sin6_scope_id == 0) {
    result.storage.sin6_scope_id = local.storage.sin6_scope_id;
  }
  return result;
}

bool is_loopback(const transport::SocketAddress& address) noexcept {
  if (address.family() == AF_INET) return ntohl(ipv4(address).s_addr) >> 24 == IN_LOOPBACKNET;
  return address.family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address.storage.sin6_addr);
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

}  // namespace udapl
