// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "tests/sim/kernel.h"

#include <cstdint>
#include <optional>
#include <string>

namespace udapl::sim {

struct Options {
  bool verbose = false;
  bool saboteur = false;  // the network changes a byte of the data unnoticed by the CRC
  bool small = false;     // one connection, short messages, few of them
  // Replaces the fault that the seed has drawn.
  struct Strike {
    Weather::Fault fault;
    std::uint64_t at;
    bool from_client;
  };
  std::optional<Strike> strike;
  std::string settings;  // of the adapters, added to those that the seed has drawn
};

// One run: two or three adapters, a few connections, random transfers, one kind of weather.
struct Outcome {
  std::string violation;     // empty: every invariant held
  std::uint64_t digest = 0;  // of everything that the application has seen
  std::uint64_t completions = 0;
  std::uint64_t broken = 0;     // connections that the weather ended
  bool fault_injected = false;  // the fault has happened
};

// The same seed gives the same run.
[[nodiscard]] Outcome run(std::uint64_t seed, const Options& options);

}  // namespace udapl::sim
