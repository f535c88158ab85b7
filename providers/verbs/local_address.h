// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/cm.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Addresses of this machine, and how addresses are compared and written.
namespace udapl::verbs {

// "192.0.2.7", "[2001:db8::7]:4791"; the port if it is not 0.
[[nodiscard]] std::string to_text(const transport::SocketAddress& address);
// Ports do not count, nor does the scope of an IPv6 address if one of them has none.
[[nodiscard]] bool same_host(const transport::SocketAddress& a,
                             const transport::SocketAddress& b) noexcept;
// Unspecified, broadcast or multicast: no host has it.
[[nodiscard]] bool is_no_host(const transport::SocketAddress& address) noexcept;

// One address of a network interface. The port is 0.
struct Interface {
  std::string name;
  transport::SocketAddress address;
};

// All IPv4 and IPv6 addresses of this machine; nullopt: the system does not say (errno).
[[nodiscard]] std::optional<std::vector<Interface>> local_interfaces();

// The best address of interface `name`: IPv4, else IPv6, global before link-local.
[[nodiscard]] const Interface* by_name(const std::vector<Interface>& interfaces,
                                       std::string_view name) noexcept;
[[nodiscard]] const Interface* by_address(const std::vector<Interface>& interfaces,
                                          const transport::SocketAddress& address) noexcept;
// A numeric address of this machine ("fe80::1%eth0" too); never asks a name server.
[[nodiscard]] const Interface* by_number(const std::vector<Interface>& interfaces,
                                         const std::string& text);
// A host name that resolves to an address of this machine. Blocks while it is looked up.
[[nodiscard]] const Interface* by_host_name(const std::vector<Interface>& interfaces,
                                            const std::string& name);
// Why `name` leads to none of these: it is an interface without an address, or in a bond, or
// nothing that this machine knows.
[[nodiscard]] std::string why_no_interface(const std::string& name);
// "eth0 192.0.2.7, ib0 192.0.3.7"; "none".
[[nodiscard]] std::string list_of(const std::vector<Interface>& interfaces);

}  // namespace udapl::verbs
