// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "tests/sim/kernel.h"
#include "tests/sim/run.h"
#include "tests/sim/side.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace udapl::sim {

// Two or three adapters with their connections, the random numbers that drive them and the result.
struct World {
  World(std::uint64_t seed, const Options& chosen)
      : rng(seed), options(chosen), lateness(seed ^ 0x9E3779B97F4A7C15) {
    late = lateness() % 3 == 0;
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Rng rng;
  const Options options;
  Weather weather;
  std::string settings;  // of the adapters
  bool slow = false;
  bool late = false;  // receives are posted after the messages for them were sent
  Rng lateness;
  bool thread_safe = true;
  bool crc = true;
  std::vector<Node> nodes;
  std::vector<std::unique_ptr<Side>> clients;  // client i and server i belong together
  std::vector<std::unique_ptr<Side>> servers;
  Outcome outcome;

  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return rng() % limit; }
  [[nodiscard]] bool chance(std::uint64_t one_in) { return below(one_in) == 0; }

  [[nodiscard]] bool good() const { return outcome.violation.empty(); }
  bool check(bool condition, const char* what);
  bool success(DAT_RETURN status, const char* what);
  // Whether the contents of messages can be checked. Without a CRC a changed bit may have any
  // effect on them; the guarantees about the order and number of completions still hold.
  [[nodiscard]] bool trusted() const {
    return crc || weather.fault != Weather::Fault::kCorrupt || !Kernel::instance().fault_happened();
  }
  bool check_content(bool condition, const char* what) {
    return !trusted() || check(condition, what);
  }

  void note(std::uint64_t value) { outcome.digest = (outcome.digest ^ value) * 0x100000001B3; }
  void print_step(const char* what, std::uint64_t number) const;

  template <class Do>
  void each_side(Do act) {
    for (const auto* sides : {&clients, &servers})
      for (const auto& side : *sides) act(*side);
  }
  template <class Condition>
  [[nodiscard]] bool all_sides(Condition condition) {
    bool all = true;
    each_side([&](Side& side) { all = all && condition(side); });
    return all;
  }
};

// setup.cpp: the objects. Both functions report failures to the world.
bool open_world(World& world);
void close_world(World& world);

// transfers.cpp: the application's posts.
void act(World& world, Side& side);
void post_receive(World& world, Side& side);
void post_shared(World& world, Node& node, std::byte* room);
// Posts receives that were postponed: now and then some of them, or all.
void post_owed(World& world, Node& node, bool all);
void disconnect(World& world, Side& side);
// The rest is for windows.cpp.
DAT_COUNT cut(World& world, const Side& side, std::byte* data, std::size_t length,
              std::array<DAT_LMR_TRIPLET, 4>& segments);
// Whether a post succeeded. The connection may end at any moment: then a post is refused or
// flushed, and both are right.
[[nodiscard]] bool accepted(World& world, DAT_RETURN status, const char* what);
Request& posted(Side& side, Kind kind);
[[nodiscard]] bool has_slot(const Side& side, Kind kind);
[[nodiscard]] DAT_DTO_COOKIE cookie_of(std::uint64_t value);
DAT_RETURN post_extension(const Side& side, DAT_EXTENDED_OP operation, ...);

// windows.cpp: memory windows and atomics.
void bind_window(World& world, Side& side);
void invalidate_window(World& world, Side& side);
void use_dead_key(World& world, Side& side);
void post_atomic(World& world, Side& side);
// The key with which `side` reaches its peer's memory: sometimes a window's.
[[nodiscard]] DAT_RMR_TRIPLET key_to(World& world, Side& side, std::size_t window,
                                     const std::byte* data, std::size_t length, bool& by_window);

// witness.cpp: what the application sees, and the checks of that.
void look(World& world, Node& node);
void settle(World& world, Side& side);
// Resets the memory and counters of both sides for a new connection.
void prepare(World& world, Side& side);

// witness_connections.cpp: the part of it about connections.
void on_arrival(World& world, Node& node, const DAT_EVENT& event);
void on_connection(World& world, const DAT_EVENT& event);
// The side with that EP; null: none.
[[nodiscard]] Side* side_of(World& world, DAT_HANDLE ep);

}  // namespace udapl::sim
