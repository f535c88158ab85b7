// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/connecting/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "providers/connecting/interfaces_without_netlink.h"
#include "providers/connecting/socket_address.h"

namespace udapl {

namespace {

using transport::SocketAddress;

bool is_ip(int family) noexcept { return family == AF_INET || family == AF_INET6; }

// Lower is better.
int rank(const SocketAddress& address) noexcept {
  if (address.family() == AF_INET) return 0;
  return IN6_IS_ADDR_LINKLOCAL(&address.storage.sin6_addr) ? 2 : 1;
}

std::uint32_t ipv4_word(const sockaddr* address) noexcept {
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr;
}

std::uint32_t loopback_mask_of(const ifaddrs& entry) noexcept {
  if ((entry.ifa_flags & IFF_LOOPBACK) == 0 || entry.ifa_netmask == nullptr ||
      entry.ifa_addr->sa_family != AF_INET)
    return 0;
  return ipv4_word(entry.ifa_netmask);
}

// Whether a sandbox does not permit the call: seccomp filters, such as those of systemd's
// RestrictAddressFamilies= (EAFNOSUPPORT), and security modules. A failure for lack of descriptors
// or memory is none of these.
bool is_forbidden(int error) noexcept {
  return error == EAFNOSUPPORT || error == EPERM || error == EACCES || error == EPROTONOSUPPORT;
}

}  // namespace

std::optional<std::vector<Interface>> local_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return is_forbidden(errno) ? interfaces_without_netlink() : std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || !is_ip(entry->ifa_addr->sa_family)) continue;
    interfaces.push_back(
        {entry->ifa_name, SocketAddress::from(entry->ifa_addr), loopback_mask_of(*entry)});
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

bool in_loopback_network(const Interface& interface, const SocketAddress& address) noexcept {
  const std::uint32_t mask = interface.loopback_mask;
  if (mask == 0 || address.family() != AF_INET) return false;
  return (ipv4_word(interface.address.get()) & mask) == (ipv4_word(address.get()) & mask);
}

std::vector<SocketAddress> addresses_of(const std::string& text, Lookup lookup) {
  std::vector<SocketAddress> addresses;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = lookup == Lookup::kNumeric ? AI_NUMERICHOST : 0;
  addrinfo* first = nullptr;
  if (::getaddrinfo(text.c_str(), nullptr, &hints, &first) != 0) return addresses;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> answers(first, ::freeaddrinfo);
  for (const addrinfo* answer = first; answer != nullptr; answer = answer->ai_next)
    if (is_ip(answer->ai_family)) addresses.push_back(SocketAddress::from(answer->ai_addr));
  return addresses;
}

bool is_numeric(std::string_view name) noexcept {
  return name.find_first_not_of("0123456789.") == std::string_view::npos ||
         name.find(':') != std::string_view::npos;
}

std::string list_of(const std::vector<Interface>& interfaces) {
  std::string list;
  for (const Interface& interface : interfaces) {
    if (!list.empty()) list += ", ";
    list.append(interface.name).append(1, ' ').append(to_text(interface.address));
  }
  return list.empty() ? "none" : list;
}

}  // namespace udapl
