// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/interfaces.h"

#include <string>
#include <vector>

// Finds an interface by a name in dat.conf that is not its own: an address or a host name.
namespace udapl::verbs {

// A numeric address of this machine (also "fe80::1%eth0"); never queries a name server.
[[nodiscard]] const Interface* by_number(const std::vector<Interface>& interfaces,
                                         const std::string& text);
// A host name that resolves to an address of this machine. Blocks during the lookup.
[[nodiscard]] const Interface* by_host_name(const std::vector<Interface>& interfaces,
                                            const std::string& name);
// Explains why `name` matches no interface: it is an interface without an address, the member of a
// bond, or unknown on this machine.
[[nodiscard]] std::string why_no_interface(const std::string& name);

}  // namespace udapl::verbs
