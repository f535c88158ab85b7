// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/connecting/interfaces.h"

#include <string>
#include <vector>

// What an entry of dat.conf may call an interface besides its name.
namespace udapl::verbs {

// A numeric address of this machine ("fe80::1%eth0" too); never asks a name server.
[[nodiscard]] const Interface* by_number(const std::vector<Interface>& interfaces,
                                         const std::string& text);
// A host name that resolves to an address of this machine. Blocks while it is looked up.
[[nodiscard]] const Interface* by_host_name(const std::vector<Interface>& interfaces,
                                            const std::string& name);
// Why `name` leads to none of these: it is an interface without an address, or in a bond, or
// nothing that this machine knows.
[[nodiscard]] std::string why_no_interface(const std::string& name);

}  // namespace udapl::verbs
