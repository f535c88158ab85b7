// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "connection.h"

#include <cstdint>

namespace dattx {

// Serves `clients` clients one after another (0: forever). A client that fails does not end the
// server. Returns the exit status: 0, or 1 if the server itself failed.
[[nodiscard]] int serve(const Settings& settings, std::uint32_t clients);

}  // namespace dattx
