// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The sequence of a run: weather, rounds of connections, steps, and how everything must end.
#include "tests/sim/run.h"

#include "dapl/table/provider_table.h"
#include "providers/soft/adapter.h"
#include "providers/soft/cq.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"
#include "tests/sim/world.h"

#include <dat/dat_registry.h>
#include <netinet/in.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>

namespace udapl::sim {

namespace {

// Simulated, and longer than all time limits: the clock may step over one, to the end of a stall,
// in each of the nine attempts of a connect without a limit.
constexpr auto kPatience = std::chrono::seconds(600);

const dapl::ProviderKit& kit() {
  static const dapl::ProviderKit made =
      dapl::make_provider_kit<soft::Qp, soft::Cq, soft::Srq>(&soft::Adapter::open);
  return made;
}

DAT_PROVIDER_INFO info(bool thread_safe) {
  DAT_PROVIDER_INFO entry{};
  std::strcpy(entry.ia_name, "sim");
  entry.dapl_version_major = 2;
  entry.is_thread_safe = thread_safe ? DAT_TRUE : DAT_FALSE;
  return entry;
}

Weather draw_weather(World& world) {
  Weather weather;
  weather.fault = static_cast<Weather::Fault>(world.below(Weather::kFaults));
  // Early faults hit the handshake. Bits are changed only after it, as no checksum covers it.
  weather.at = weather.fault == Weather::Fault::kCorrupt ? 100 + world.below(20000)
               : world.chance(3)                         ? world.below(200)
                                                         : world.below(60000);
  weather.from_client = world.chance(2);
  constexpr std::size_t kPieces[] = {1, 7, 100, 1461, 65536, 65536};
  weather.piece = kPieces[world.below(std::size(kPieces))];
  weather.buffer = std::size_t{4096} << world.below(7);
  weather.mss = static_cast<std::uint32_t>(536 + world.below(9000));
  weather.delay_us = 1U << world.below(15);
  weather.spurious_blocking = world.chance(2);
  return weather;
}

void choose(World& world) {
  world.weather = draw_weather(world);
  // With small pieces everything takes long: then the application does less.
  world.slow = world.weather.piece < (world.weather.delay_us < 4096 ? 100U : 1000U);
  world.thread_safe = world.chance(2);
  world.crc = !world.chance(4);
  world.settings = "lo 0 path=tcp";  // the simulated kernel has no shared memory
  if (!world.crc) world.settings += " crc=off";
  const std::string drain = " drain=" + std::to_string(3 + world.below(5));
  const bool drains = world.chance(4);
  if (!world.options.settings.empty())
    world.settings += " " + world.options.settings;
  else if (drains)
    world.settings += drain;
  if (!world.options.strike) return;
  world.weather.fault = world.options.strike->fault;
  world.weather.at = world.options.strike->at;
  world.weather.from_client = world.options.strike->from_client;
}

void drive(World& world) {
  for (Node& node : world.nodes) {
    if (node.stalled > 0) {
      --node.stalled;
      continue;
    }
    if (world.good()) look(world, node);
    if (world.late && world.good()) post_owed(world, node, false);
  }
}

void begin_round(World& world) {
  for (std::size_t i = 0; i < world.clients.size(); ++i) {
    Side& client = *world.clients[i];
    Side& server = *world.servers[i];
    if (client.state != Side::State::kIdle || server.state != Side::State::kIdle) continue;
    prepare(world, client);
    prepare(world, server);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ++client.attempts;
    // Tells the server which of its endpoints is meant.
    auto index = static_cast<std::uint8_t>(i);
    const DAT_TIMEOUT timeout = world.chance(4) ? 3'000'000 : DAT_TIMEOUT_INFINITE;
    if (world.success(
            client.node->table->ep_connect_func(
                client.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), server.node->port,
                timeout, 1, &index, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
            "ep_connect"))
      client.state = Side::State::kConnecting;
  }
}

Side& random_side(World& world) {
  auto& sides = world.chance(2) ? world.clients : world.servers;
  return *sides[world.below(sides.size())];
}

// Asks for one event when the SRQ runs low.
void arm_watermark(World& world, Node& node) {
  if (node.srq == DAT_HANDLE_NULL) return;
  const auto mark = static_cast<DAT_COUNT>(1 + world.below(kSlots));
  if (world.success(node.table->srq_set_lw_func(node.srq, mark), "srq_set_lw"))
    ++node.watermarks_armed;
}

void take_step(World& world) {
  Kernel& kernel = Kernel::instance();
  switch (world.below(8)) {
    case 0:
      kernel.next_event();
      break;
    case 1:
      kernel.advance(std::chrono::microseconds(world.below(2 * world.weather.delay_us + 1)));
      break;
    case 2: {
      Node& node = world.nodes[world.below(world.nodes.size())];
      if (world.chance(20)) node.stalled = static_cast<int>(world.below(60));
      if (world.chance(5)) arm_watermark(world, node);
      break;
    }
    case 3:
      if (world.chance(60)) disconnect(world, random_side(world));
      break;
    default:
      act(world, random_side(world));
  }
  drive(world);
}

// Runs the nodes and the network until `done`, or for so long that nothing more can happen.
template <class Done>
bool go_on(World& world, Done done) {
  Kernel& kernel = Kernel::instance();
  const Clock::time_point limit = kernel.now() + kPatience;
  for (Node& node : world.nodes) node.stalled = 0;
  while (!done() && world.good() && kernel.now() < limit) {
    drive(world);
    // From event to event of the network; without any, by time, for the timers of the adapters.
    if (!kernel.next_event()) kernel.advance(std::chrono::milliseconds(100));
  }
  return done();
}

void end_round(World& world) {
  // Every request of a connection that is still up completes, and every message arrives.
  const bool settled = go_on(world, [&] {
    return world.all_sides([](const Side& side) {
      return side.state != Side::State::kConnecting &&
             (side.state != Side::State::kConnected || !side.busy());
    });
  });
  if (!world.good()) return;
  world.check(settled || Kernel::instance().fault_happened(), "a fair network, and transfers hang");
  for (std::size_t i = 0; i < world.clients.size(); ++i)
    disconnect(world, world.chance(2) ? *world.clients[i] : *world.servers[i]);
  // Whatever the weather, both sides are notified of the end, within the time limits of TCP and the
  // provider.
  const bool over = go_on(world, [&] {
    return world.all_sides([](const Side& side) {
      return side.state != Side::State::kConnected && side.state != Side::State::kConnecting;
    });
  });
  world.check(over, "a connection does not end");
  if (!world.good()) return;
  // Dequeues the events that the application has not seen yet.
  for (int i = 0; i < 20; ++i) drive(world);
  world.each_side([&](Side& side) { settle(world, side); });
}

void play(World& world) {
  if (!open_world(world)) return close_world(world);
  const std::uint64_t rounds = 1 + world.below(2);
  for (std::uint64_t round = 0; round < rounds && world.good(); ++round) {
    begin_round(world);
    const std::uint64_t steps = 30 + world.below(world.slow || world.options.small ? 60 : 200);
    for (std::uint64_t step = 0; step < steps && world.good(); ++step) take_step(world);
    end_round(world);
  }
  close_world(world);
}

}  // namespace

Outcome run(std::uint64_t seed, const Options& options) {
  const auto world = std::make_unique<World>(seed, options);
  choose(*world);
  Kernel::instance().reset(seed ^ 0x5DEECE66D, world->weather);
  if (options.verbose)
    std::printf("sim: seed %llu: %s, adapters \"%s\"\n", static_cast<unsigned long long>(seed),
                to_text(world->weather).c_str(), world->settings.c_str());
  const DAT_PROVIDER_INFO entry = info(world->thread_safe);
  dapl::register_provider(kit(), &entry, world->settings.c_str());
  play(*world);
  dapl::unregister_provider(&entry);
  world->check(Kernel::instance().open_descriptors() == 0, "descriptors are still open");
  world->outcome.fault_injected = Kernel::instance().fault_injected();
  return world->outcome;
}

}  // namespace udapl::sim
