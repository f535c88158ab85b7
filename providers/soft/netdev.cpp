// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/netdev.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "common/errno_text.h"
#include "common/fd.h"
#include "common/tracing/cause.h"
#include "providers/connecting/interfaces.h"
#include "providers/connecting/socket_address.h"
#include "providers/connecting/words.h"

namespace udapl::soft {

namespace {

using transport::SocketAddress;

std::optional<Netdev> by_interface(const std::vector<Interface>& interfaces,
                                   const std::string& name) {
  const Interface* const found = by_name(interfaces, name);
  if (found == nullptr) return std::nullopt;
  return Netdev{name, found->address, 0};
}

// Every address in the network of a loopback interface (127.0.0.0/8) belongs to this machine.
std::optional<Netdev> by_own_address(const std::vector<Interface>& interfaces,
                                     const SocketAddress& address) {
  for (const Interface& interface : interfaces) {
    if (same_host(interface.address, address)) return Netdev{interface.name, interface.address, 0};
    if (!is_no_host(address) && in_loopback_network(interface, address))
      return Netdev{interface.name, address, 0};
  }
  return std::nullopt;
}

// Looks up a numeric address, with its scope, or a host name.
std::optional<Netdev> by_lookup(const std::vector<Interface>& interfaces, const std::string& name,
                                Lookup lookup) {
  for (const SocketAddress& address : addresses_of(name, lookup))
    if (auto found = by_own_address(interfaces, address)) return found;
  return std::nullopt;
}

int mtu_of(const std::string& name) noexcept {
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const Fd socket = Fd::made(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return 0;
  return request.ifr_mtu;
}

}  // namespace

Result<Netdev> find_netdev(std::string_view ia_params) {
  const std::vector<std::string_view> words = words_of(ia_params);
  if (words.empty()) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_PARAMETER),
                  "dat.conf: the seventh field is empty; it names a network interface: \"lo 0\"");
    return failure(DAT_INVALID_PARAMETER);
  }
  const std::string device(words.front());
  const auto interfaces = local_interfaces();
  if (!interfaces) {
    const int error = errno;
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error,
                        "cannot list the network interfaces");
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  auto found = by_interface(*interfaces, device);
  if (!found) found = by_lookup(*interfaces, device, Lookup::kNumeric);
  if (!found && !is_numeric(device) && ::if_nametoindex(device.c_str()) == 0)
    found = by_lookup(*interfaces, device, Lookup::kHostName);
  if (found) {
    found->address.set_port(0);
    found->mtu = mtu_of(found->name);
    return *std::move(found);
  }
  UDAPL_EXPLAIN(
      kError, dat_error(DAT_INVALID_ADDRESS),
      "dat.conf: \"%s\" is not a network interface with an address, nor an address or host "
      "name of this machine. There are: %s",
      device.c_str(), list_of(*interfaces).c_str());
  return failure(DAT_INVALID_ADDRESS);
}

}  // namespace udapl::soft
