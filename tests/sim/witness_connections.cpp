// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connection requests and connection events that the application sees, and the checks of them.
#include "tests/sim/world.h"

namespace udapl::sim {

namespace {

std::uint64_t credits_from(const Side& side) {
  return side.uses_srq ? kSlots : side.receives.size() + side.postponed_receives;
}

// Links both sides once both know of the connection.
void meet(World& world, Side& side) {
  for (std::size_t i = 0; i < world.clients.size(); ++i) {
    Side& client = *world.clients[i];
    Side& server = *world.servers[i];
    if ((&side != &client && &side != &server) || client.state != Side::State::kConnected ||
        server.state != Side::State::kConnected)
      continue;
    client.peer = &server;
    server.peer = &client;
    client.disconnects = server.disconnects = client.disconnects || server.disconnects;
    client.credits = credits_from(server);
    server.credits = credits_from(client);
  }
}

void part(Side& side) {
  if (side.peer == nullptr) return;
  side.peer->disconnects = true;  // its end is near
  side.peer->messages.clear();    // their fate stays unknown
  side.messages.clear();
  side.peer->peer = nullptr;
  side.peer = nullptr;
}

}  // namespace

Side* side_of(World& world, DAT_HANDLE ep) {
  Side* found = nullptr;
  world.each_side([&](Side& side) {
    if (side.ep == ep) found = &side;
  });
  return found;
}

void on_arrival(World& world, Node& node, const DAT_EVENT& event) {
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  const DAT_PROVIDER* const table = node.table;
  DAT_CR_PARAM param{};
  if (!world.success(table->cr_query_func(cr, DAT_CR_FIELD_ALL, &param), "cr_query")) return;
  const std::size_t index =
      param.private_data_size == 1 ? *static_cast<const std::uint8_t*>(param.private_data) : 99;
  const bool mine = index < world.servers.size() && world.servers[index]->node == &node;
  if (!mine) {  // no checksum covers the handshake
    world.check(
        world.weather.fault == Weather::Fault::kCorrupt && Kernel::instance().fault_happened(),
        "private data are wrong");
    world.success(table->cr_reject_func(cr, 0, nullptr), "cr_reject");
    return;
  }
  Side& server = *world.servers[index];
  world.note(index);
  world.print_step("connection request", index);
  // If a client lost its connection while connecting and tries again, the EP is still in use.
  if (server.state != Side::State::kIdle || world.chance(20)) {
    world.success(table->cr_reject_func(cr, 0, nullptr), "cr_reject");
    return;
  }
  ++server.attempts;
  if (world.success(table->cr_accept_func(cr, server.ep, 0, nullptr), "cr_accept"))
    server.state = Side::State::kConnecting;
}

void on_connection(World& world, const DAT_EVENT& event) {
  Side* const side = side_of(world, event.event_data.connect_event_data.ep_handle);
  if (!world.check(side != nullptr, "a connection event of no endpoint")) return;
  world.note(static_cast<std::uint64_t>(event.event_number));
  world.print_step("connection event", static_cast<std::uint64_t>(event.event_number));
  const bool connecting = side->state == Side::State::kConnecting;
  switch (event.event_number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
      world.check(connecting, "established twice, or out of nothing");
      side->state = Side::State::kConnected;
      return meet(world, *side);
    case DAT_CONNECTION_EVENT_DISCONNECTED:
    case DAT_CONNECTION_EVENT_BROKEN:
      world.check(side->state == Side::State::kConnected || (connecting && side->disconnects),
                  "ended twice, or before it began");
      if (event.event_number != DAT_CONNECTION_EVENT_BROKEN) break;
      ++world.outcome.broken;
      world.check(side->disconnects || Kernel::instance().fault_happened(),
                  "a fair network, and a connection breaks");
      break;
    default:
      world.check(connecting, "a failure to connect, out of nothing");
      break;
  }
  side->state = Side::State::kEnded;
  part(*side);
}

}  // namespace udapl::sim
