// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>

namespace udapl::verbs {

namespace {

using transport::SocketAddress;

const in_addr& ipv4(const SocketAddress& address) noexcept {
  return reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr;
}

// Lower is better.
int rank(const SocketAddress& address) noexcept {
  if (address.family() == AF_INET) return 0;
  return IN6_IS_ADDR_LINKLOCAL(&address.storage.sin6_addr) ? 2 : 1;
}

const Interface* look_up(const std::vector<Interface>& interfaces, const std::string& name,
                         int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* first = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &first) != 0) return nullptr;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> answers(first, ::freeaddrinfo);
  for (const addrinfo* answer = first; answer != nullptr; answer = answer->ai_next) {
    if (answer->ai_family != AF_INET && answer->ai_family != AF_INET6) continue;
    const Interface* const found = by_address(interfaces, SocketAddress::from(answer->ai_addr));
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

std::string to_text(const SocketAddress& address) {
  char host[NI_MAXHOST];
  if (address.family() == 0 || ::getnameinfo(address.get(), address.size(), host, sizeof host,
                                             nullptr, 0, NI_NUMERICHOST) != 0)
    return "no address";
  if (address.port() == 0) return host;
  std::string text(host);
  if (address.family() == AF_INET6) text.insert(0, 1, '[').push_back(']');
  return text.append(1, ':').append(std::to_string(address.port()));
}

bool same_host(const SocketAddress& a, const SocketAddress& b) noexcept {
  if (a.family() != b.family()) return false;
  if (a.family() == AF_INET) return ipv4(a).s_addr == ipv4(b).s_addr;
  return std::memcmp(&a.storage.sin6_addr, &b.storage.sin6_addr, sizeof(in6_addr)) == 0 &&
         (a.storage.sin6_scope_id == 0 || b.storage.sin6_scope_id == 0 ||
          a.storage.sin6_scope_id == b.storage.sin6_scope_id);
}

bool is_no_host(const SocketAddress& address) noexcept {
  if (address.family() == AF_INET) {
    const std::uint32_t host = ntohl(ipv4(address).s_addr);
    return host == INADDR_ANY || host == INADDR_BROADCAST || IN_MULTICAST(host);
  }
  if (address.family() != AF_INET6) return true;
  return IN6_IS_ADDR_UNSPECIFIED(&address.storage.sin6_addr) ||
         IN6_IS_ADDR_MULTICAST(&address.storage.sin6_addr);
}

std::optional<std::vector<Interface>> local_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const sockaddr* const address = entry->ifa_addr;
    if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
      continue;
    interfaces.push_back({entry->ifa_name, SocketAddress::from(address)});
    interfaces.back().address.set_port(0);
  }
  return interfaces;
}

const Interface* by_name(const std::vector<Interface>& interfaces, std::string_view name) noexcept {
  const Interface* best = nullptr;
  for (const Interface& interface : interfaces) {
    if (interface.name != name) continue;
    if (best == nullptr || rank(interface.address) < rank(best->address)) best = &interface;
  }
  return best;
}

const Interface* by_address(const std::vector<Interface>& interfaces,
                            const SocketAddress& address) noexcept {
  const auto found = std::find_if(
      interfaces.begin(), interfaces.end(),
      [&](const Interface& interface) { return same_host(interface.address, address); });
  return found == interfaces.end() ? nullptr : &*found;
}

const Interface* by_number(const std::vector<Interface>& interfaces, const std::string& text) {
  return look_up(interfaces, text, AI_NUMERICHOST);
}

const Interface* by_host_name(const std::vector<Interface>& interfaces, const std::string& name) {
  return look_up(interfaces, name, 0);
}

std::string why_no_interface(const std::string& name) {
  if (name.size() >= IF_NAMESIZE || ::if_nametoindex(name.c_str()) == 0)
    return "not a network interface with an address, an address or host name of this machine, a "
           "GID of an InfiniBand port, or an RDMA device";
  // The address of a bond is its own, not its members'.
  char target[PATH_MAX];
  const std::string link = "/sys/class/net/" + name + "/master";
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  if (length <= 0) return "that network interface has no IP address";
  const std::string_view path(target, static_cast<std::size_t>(length));
  return "that network interface is a part of " + std::string(path.substr(path.rfind('/') + 1)) +
         ", which has the addresses";
}

std::string list_of(const std::vector<Interface>& interfaces) {
  std::string list;
  for (const Interface& interface : interfaces) {
    if (!list.empty()) list += ", ";
    list.append(interface.name).append(1, ' ').append(to_text(interface.address));
  }
  return list.empty() ? "none" : list;
}

}  // namespace udapl::verbs
