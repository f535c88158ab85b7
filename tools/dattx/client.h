// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "connection.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dattx {

enum class Operation { kSend, kWrite, kRead, kPing };

struct Plan {
  std::string host;
  std::vector<Operation> operations;
  std::vector<std::uint32_t> sizes;  // bytes
  std::uint32_t count = 200;         // transfers per measurement; fewer when they are large
  std::uint32_t window = 4;          // transfers in flight when measuring bandwidth
};

// Connects, runs every operation with every size, and prints the table. Returns the exit status: 0,
// or 1 if the received data is wrong or something failed.
[[nodiscard]] int run(const Settings& settings, const Plan& plan);

}  // namespace dattx
