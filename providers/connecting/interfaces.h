// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/cm.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The network interfaces of this machine and their addresses.
namespace udapl {

// One address of a network interface. The port is 0.
struct Interface {
  std::string name;
  transport::SocketAddress address;
  // For an IPv4 address of a loopback interface, its netmask in network byte order: every address
  // of that network (127.0.0.0/8) is this machine. 0 for any other address.
  std::uint32_t loopback_mask = 0;
};

// All IPv4 and IPv6 addresses of this machine; nullopt if the system call failed (errno).
[[nodiscard]] std::optional<std::vector<Interface>> local_interfaces();

// The best address of interface `name`: IPv4 before IPv6, global before link-local.
[[nodiscard]] const Interface* by_name(const std::vector<Interface>& interfaces,
                                       std::string_view name) noexcept;
[[nodiscard]] const Interface* by_address(const std::vector<Interface>& interfaces,
                                          const transport::SocketAddress& address) noexcept;
// Returns whether `interface` is an address of a loopback interface whose network contains
// `address`.
[[nodiscard]] bool in_loopback_network(const Interface& interface,
                                       const transport::SocketAddress& address) noexcept;

// Resolves `text` with getaddrinfo; empty if there is no such address. kNumeric: only numeric
// addresses, also with a scope ("fe80::1%eth0"), without a name server. kHostName: also host names,
// which blocks.
enum class Lookup : std::uint8_t { kNumeric, kHostName };
[[nodiscard]] std::vector<transport::SocketAddress> addresses_of(const std::string& text,
                                                                 Lookup lookup);

// Whether `name` has the form of a numeric address, so that no name server need be queried.
[[nodiscard]] bool is_numeric(std::string_view name) noexcept;

// For example "eth0 192.0.2.7, ib0 192.0.3.7"; "none" if there is none.
[[nodiscard]] std::string list_of(const std::vector<Interface>& interfaces);

}  // namespace udapl
