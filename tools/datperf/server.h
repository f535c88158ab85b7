// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "plan.h"

#include <functional>

namespace datperf {

/** What clients may take of an IA, and of the sockets; who wants more is refused. */
struct Limits {
  std::uint64_t memory = 4ULL << 30;  // of all groups; of all messages of sockets
  std::size_t groups = 256;
  std::size_t bare = 4096;  // connections without a group
};

/** Serves each IA of the plan at a port of its own (see port_of), until so many clients have come
 *  and gone; 0: forever. `ready` is called when all listen. The exit status. */
int serve(const Plan& plan, std::uint32_t clients, const std::function<void()>& ready,
          const Limits& limits = {});

/** Where the IA with that index listens. */
[[nodiscard]] inline std::uint16_t port_of(const Plan& plan, std::size_t index) {
  return static_cast<std::uint16_t>(plan.port + index);
}
/** Where the sockets do. */
[[nodiscard]] inline std::uint16_t socket_port_of(const Plan& plan) {
  return port_of(plan, plan.ias.size());
}

}  // namespace datperf
