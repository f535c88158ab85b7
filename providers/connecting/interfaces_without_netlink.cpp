// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/connecting/interfaces_without_netlink.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "common/fd.h"

namespace udapl {

namespace {

using transport::SocketAddress;

// The netmask if this is an address of a loopback interface, else 0.
std::uint32_t loopback_mask_of(int socket, ifreq entry) noexcept {
  ifreq flags = entry;
  if (::ioctl(socket, SIOCGIFFLAGS, &flags) != 0 || (flags.ifr_flags & IFF_LOOPBACK) == 0 ||
      ::ioctl(socket, SIOCGIFNETMASK, &entry) != 0)
    return 0;
  sockaddr_in mask;
  std::memcpy(&mask, &entry.ifr_netmask, sizeof mask);
  return mask.sin_addr.s_addr;
}

bool add_ipv4(std::vector<Interface>& interfaces) {
  const Fd socket = Fd::made(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return false;
  // If the list fills all the room, there may be more of it.
  constexpr std::size_t kRoom = 64;
  std::vector<ifreq> entries;
  ifconf list{};
  std::size_t count = 0;
  do {
    entries.resize(entries.size() + kRoom);
    list.ifc_len = static_cast<int>(entries.size() * sizeof(ifreq));
    list.ifc_req = entries.data();
    if (::ioctl(socket.get(), SIOCGIFCONF, &list) != 0) return false;
    count = static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq);
  } while (count == entries.size());
  for (std::size_t i = 0; i != count; ++i) {
    const ifreq& entry = entries[i];
    sockaddr_in address;
    std::memcpy(&address, &entry.ifr_addr, sizeof address);
    interfaces.push_back({std::string(entry.ifr_name, ::strnlen(entry.ifr_name, IFNAMSIZ)),
                          SocketAddress::from(reinterpret_cast<const sockaddr*>(&address)),
                          loopback_mask_of(socket.get(), entry)});
    interfaces.back().address.set_port(0);
  }
  return true;
}

// Lines are "address index prefix scope flags name", the first five in hex.
void add_ipv6(std::vector<Interface>& interfaces) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> list(std::fopen("/proc/net/if_inet6", "re"),
                                                             &std::fclose);
  if (list == nullptr) return;
  char digits[33];
  char name[IFNAMSIZ];
  unsigned index = 0;
  while (std::fscanf(list.get(), "%32s %x %*x %*x %*x %15s", digits, &index, name) == 3) {
    SocketAddress address;
    address.storage.sin6_family = AF_INET6;
    in6_addr& host = address.storage.sin6_addr;
    for (std::size_t i = 0; i != sizeof host.s6_addr; ++i) {
      unsigned byte = 0;
      if (std::sscanf(digits + 2 * i, "%2x", &byte) != 1) return;
      host.s6_addr[i] = static_cast<std::uint8_t>(byte);
    }
    if (IN6_IS_ADDR_LINKLOCAL(&host)) address.storage.sin6_scope_id = index;
    interfaces.push_back({name, address, 0});
  }
}

}  // namespace

std::optional<std::vector<Interface>> interfaces_without_netlink() {
  std::vector<Interface> interfaces;
  if (!add_ipv4(interfaces)) return std::nullopt;
  add_ipv6(interfaces);
  return interfaces;
}

}  // namespace udapl
