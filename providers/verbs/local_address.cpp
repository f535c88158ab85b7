// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/local_address.h"

#include <net/if.h>
#include <unistd.h>

#include <climits>
#include <string_view>

namespace udapl::verbs {

namespace {

const Interface* look_up(const std::vector<Interface>& interfaces, const std::string& name,
                         Lookup lookup) {
  for (const transport::SocketAddress& address : addresses_of(name, lookup)) {
    const Interface* const found = by_address(interfaces, address);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

const Interface* by_number(const std::vector<Interface>& interfaces, const std::string& text) {
  return look_up(interfaces, text, Lookup::kNumeric);
}

const Interface* by_host_name(const std::vector<Interface>& interfaces, const std::string& name) {
  return look_up(interfaces, name, Lookup::kHostName);
}

std::string why_no_interface(const std::string& name) {
  if (name.size() >= IF_NAMESIZE || ::if_nametoindex(name.c_str()) == 0)
    return "not a network interface with an address, an address or host name of this machine, a "
           "GID of an InfiniBand port, or an RDMA device";
  // The addresses belong to the bond, not to its members.
  char target[PATH_MAX];
  const std::string link = "/sys/class/net/" + name + "/master";
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  if (length <= 0) return "that network interface has no IP address";
  const std::string_view path(target, static_cast<std::size_t>(length));
  return "that network interface is a part of " + std::string(path.substr(path.rfind('/') + 1)) +
         ", which has the addresses";
}

}  // namespace udapl::verbs
