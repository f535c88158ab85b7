// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "connection.h"

#include <cstdint>

namespace dattx {

// Serves `clients` clients one after another (0: without end). A client that fails does not end the
// server. Answers the exit status: 0, or 1 if the server itself could not go on.
[[nodiscard]] int serve(const Settings& settings, std::uint32_t clients);

}  // namespace dattx
