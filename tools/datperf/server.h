// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "plan.h"

#include <functional>

namespace datperf {

/** What all clients of an IA may use together, and all clients of the sockets. Requests for more
 * are refused. */
struct Limits {
  std::uint64_t memory = 4ULL << 30;  // bytes of all groups; bytes of all socket messages
  std::size_t groups = 256;
  std::size_t bare = 4096;  // connections without a group
};

/** Serves each IA of the plan at a port of its own (see port_of), until that many clients have come
 *  and gone, or forever if `clients` is 0. Calls `ready` once it listens everywhere. Returns the
 *  exit status. */
int serve(const Plan& plan, std::uint32_t clients, const std::function<void()>& ready,
          const Limits& limits = {});

/** The port of the IA with that index. */
[[nodiscard]] inline std::uint16_t port_of(const Plan& plan, std::size_t index) {
  return static_cast<std::uint16_t>(plan.port + index);
}
/** The port of the socket server. */
[[nodiscard]] inline std::uint16_t socket_port_of(const Plan& plan) {
  return port_of(plan, plan.ias.size());
}

}  // namespace datperf
