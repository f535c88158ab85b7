// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/netdev.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "common/errno_text.h"
#include "common/fd.h"
#include "common/tracing/cause.h"
#include "providers/soft/socket_address.h"

namespace udapl::soft {

namespace {

using transport::SocketAddress;

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;
using Lookup = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

bool has_ip(const ifaddrs& entry) noexcept {
  return entry.ifa_addr != nullptr &&
         (entry.ifa_addr->sa_family == AF_INET || entry.ifa_addr->sa_family == AF_INET6);
}

// Lower is better.
int rank(const SocketAddress& address) noexcept {
  if (address.family() == AF_INET) return 0;
  return IN6_IS_ADDR_LINKLOCAL(&address.storage.sin6_addr) ? 2 : 1;
}

std::optional<Netdev> by_interface(const ifaddrs* interfaces, const std::string& name) {
  std::optional<Netdev> best;
  for (const ifaddrs* entry = interfaces; entry != nullptr; entry = entry->ifa_next) {
    if (!has_ip(*entry) || name != entry->ifa_name) continue;
    const SocketAddress address = SocketAddress::from(entry->ifa_addr);
    if (!best || rank(address) < rank(best->address)) best = Netdev{name, address, 0};
  }
  return best;
}

std::uint32_t ipv4_word(const sockaddr* address) noexcept {
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr;
}

// The whole network of a loopback interface (127.0.0.0/8) is this machine.
bool in_loopback_network(const ifaddrs& entry, const SocketAddress& address) noexcept {
  if ((entry.ifa_flags & IFF_LOOPBACK) == 0 || entry.ifa_netmask == nullptr ||
      entry.ifa_addr->sa_family != AF_INET || address.family() != AF_INET)
    return false;
  const std::uint32_t mask = ipv4_word(entry.ifa_netmask);
  return (ipv4_word(entry.ifa_addr) & mask) == (ipv4_word(address.get()) & mask);
}

std::optional<Netdev> by_address(const ifaddrs* interfaces, const SocketAddress& address) {
  for (const ifaddrs* entry = interfaces; entry != nullptr; entry = entry->ifa_next) {
    if (!has_ip(*entry)) continue;
    const SocketAddress own = SocketAddress::from(entry->ifa_addr);
    if (same_host(own, address)) return Netdev{entry->ifa_name, own, 0};
    if (!is_no_host(address) && in_loopback_network(*entry, address))
      return Netdev{entry->ifa_name, address, 0};
  }
  return std::nullopt;
}

// Numeric addresses with their scope, and host names.
std::optional<Netdev> by_lookup(const ifaddrs* interfaces, const std::string& name, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* first = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &first) != 0) return std::nullopt;
  const Lookup answers(first, ::freeaddrinfo);
  for (const addrinfo* answer = first; answer != nullptr; answer = answer->ai_next) {
    if (answer->ai_family != AF_INET && answer->ai_family != AF_INET6) continue;
    if (auto found = by_address(interfaces, SocketAddress::from(answer->ai_addr))) return found;
  }
  return std::nullopt;
}

int mtu_of(const std::string& name) noexcept {
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const Fd socket = Fd::made(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return 0;
  return request.ifr_mtu;
}

std::string list_of(const ifaddrs* interfaces) {
  std::string list;
  for (const ifaddrs* entry = interfaces; entry != nullptr; entry = entry->ifa_next) {
    if (!has_ip(*entry)) continue;
    if (!list.empty()) list += ", ";
    list += std::string(entry->ifa_name) + " " + to_text(SocketAddress::from(entry->ifa_addr));
  }
  return list.empty() ? "none" : list;
}

std::string first_word(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  const std::size_t end = text.find_first_of(kBlanks, begin);
  return std::string(text.substr(begin, end == std::string_view::npos ? end : end - begin));
}

}  // namespace

Result<Netdev> find_netdev(std::string_view ia_params) {
  const std::string device = first_word(ia_params);
  if (device.empty()) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_PARAMETER),
                  "dat.conf: the seventh field is empty; it names a network interface: \"lo 0\"");
    return failure(DAT_INVALID_PARAMETER);
  }
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    const int error = errno;
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error,
                        "cannot list the network interfaces");
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  const Interfaces interfaces(first, ::freeifaddrs);
  auto found = by_interface(first, device);
  if (!found) found = by_lookup(first, device, AI_NUMERICHOST);
  const bool numeric = device.find_first_not_of("0123456789.") == std::string::npos ||
                       device.find(':') != std::string::npos;
  if (!found && !numeric && ::if_nametoindex(device.c_str()) == 0)
    found = by_lookup(first, device, 0);
  if (found) {
    found->address.set_port(0);
    found->mtu = mtu_of(found->name);
    return *std::move(found);
  }
  UDAPL_EXPLAIN(
      kError, dat_error(DAT_INVALID_ADDRESS),
      "dat.conf: \"%s\" is not a network interface with an address, nor an address or host "
      "name of this machine. There are: %s",
      device.c_str(), list_of(first).c_str());
  return failure(DAT_INVALID_ADDRESS);
}

}  // namespace udapl::soft
