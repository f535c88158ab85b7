// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Creates the objects of a run, and at the end frees them one by one, which fails if a count is
// wrong.
#include "tests/fake_transport/registry.h"
#include "tests/sim/world.h"

#include <dat/dat_ib_extensions.h>

#include <chrono>
#include <cstdio>

namespace udapl::sim {

namespace {

constexpr DAT_CONN_QUAL kFirstPort = 5000;
constexpr std::size_t kMaxConnections = 4;

// The nodes' memory. It is written before it is read, so it need not be cleared between runs.
std::byte* memory_of(std::size_t node) {
  static std::array<std::vector<std::byte>, kMaxNodes> memory;
  memory[node].resize(2 * kMaxConnections * kEndpointSize);
  return memory[node].data();
}

bool open_node(World& world, std::size_t index) {
  Node& node = world.nodes[index];
  node.table = fake::registered("sim", world.thread_safe);
  if (!world.check(node.table != nullptr, "the provider is not registered")) return false;
  char name[] = "sim";
  DAT_IA_HANDLE raw = DAT_HANDLE_NULL;
  if (!world.success(node.table->ia_open_func(name, 64, &node.async, &raw), "ia_open"))
    return false;
  node.ia = raw;
  static_cast<void>(fake::note_open(raw));
  node.port = kFirstPort + index;
  node.memory = memory_of(index);
  const auto evd = [&](int flags, DAT_COUNT length, DAT_EVD_HANDLE& to) {
    return world.success(node.table->evd_create_func(raw, length, DAT_HANDLE_NULL,
                                                     static_cast<DAT_EVD_FLAGS>(flags), &to),
                         "evd_create");
  };
  DAT_REGION_DESCRIPTION region{};
  region.for_va = node.memory;
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
  const int rights = int{DAT_MEM_PRIV_ALL_FLAG} | int{DAT_IB_MEM_PRIV_REMOTE_ATOMIC};
  return evd(DAT_EVD_DTO_FLAG, 4, node.pump) &&
         evd(DAT_EVD_CONNECTION_FLAG, 32, node.connections) &&
         evd(DAT_EVD_CR_FLAG, 32, node.arrivals) &&
         world.success(node.table->pz_create_func(raw, &node.pz), "pz_create") &&
         world.success(node.table->lmr_create_func(
                           raw, DAT_MEM_TYPE_VIRTUAL, region, 2 * kMaxConnections * kEndpointSize,
                           node.pz, static_cast<DAT_MEM_PRIV_FLAGS>(rights), DAT_VA_TYPE_VA,
                           &node.lmr, &node.lmr_context, &node.rmr_context, &length, &address),
                       "lmr_create") &&
         world.success(node.table->psp_create_func(raw, node.port, node.arrivals,
                                                   DAT_PSP_CONSUMER_FLAG, &node.psp),
                       "psp_create");
}

bool make_srq(World& world, Node& node) {
  DAT_SRQ_ATTR attributes{};
  attributes.max_recv_dtos = static_cast<DAT_COUNT>(2 * kMaxConnections * kSlots);
  attributes.max_recv_iov = 4;
  attributes.low_watermark = DAT_SRQ_LW_DEFAULT;
  return world.success(node.table->srq_create_func(node.ia, node.pz, &attributes, &node.srq),
                       "srq_create");
}

DAT_EP_ATTR attributes_of_ep(World& world, bool with_srq) {
  DAT_EP_ATTR attributes{};
  attributes.service_type = DAT_SERVICE_TYPE_RC;
  attributes.max_message_size = kSlotSize;
  attributes.max_rdma_size = kSlotSize;
  attributes.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.max_recv_dtos = with_srq ? 0 : static_cast<DAT_COUNT>(kSlots);
  attributes.max_request_dtos = static_cast<DAT_COUNT>(kKinds * kSlots);
  attributes.max_recv_iov = attributes.max_request_iov = 4;
  attributes.max_rdma_read_in = attributes.max_rdma_read_out = static_cast<int>(1 + world.below(4));
  attributes.max_rdma_read_iov = attributes.max_rdma_write_iov = 4;
  attributes.srq_soft_hw = DAT_HW_DEFAULT;
  return attributes;
}

bool make_windows(World& world, Side& side) {
  for (Window& window : side.windows) {
    window.of_ep = world.chance(2);
    const DAT_PROVIDER* const table = side.node->table;
    const auto create = window.of_ep ? table->rmr_create_for_ep_func : table->rmr_create_func;
    if (!world.success(create(side.node->pz, &window.rmr), "rmr_create")) return false;
  }
  return true;
}

std::unique_ptr<Side> make_side(World& world, Node& node, bool client) {
  auto side = std::make_unique<Side>();
  side->node = &node;
  side->client = client;
  side->uses_srq = node.srq != DAT_HANDLE_NULL && world.chance(2);
  side->memory = node.memory + node.endpoints++ * kEndpointSize;
  const auto evd = [&](DAT_EVD_HANDLE& to) {
    const int flags = DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG;
    return world.success(
        node.table->evd_create_func(node.ia, static_cast<DAT_COUNT>(2 * kKinds * kSlots),
                                    DAT_HANDLE_NULL, static_cast<DAT_EVD_FLAGS>(flags), &to),
        "evd_create");
  };
  if (!evd(side->receive_evd) || !evd(side->request_evd) || !make_windows(world, *side))
    return side;
  const DAT_EP_ATTR attributes = attributes_of_ep(world, side->uses_srq);
  if (!side->uses_srq) {
    world.success(node.table->ep_create_func(node.ia, node.pz, side->receive_evd, side->request_evd,
                                             node.connections, &attributes, &side->ep),
                  "ep_create");
    return side;
  }
  world.success(
      node.table->ep_create_with_srq_func(node.ia, node.pz, side->receive_evd, side->request_evd,
                                          node.connections, node.srq, &attributes, &side->ep),
      "ep_create_with_srq");
  for (std::size_t slot = 0; slot < kSlots && world.good(); ++slot)
    post_shared(world, node, side->slot(kReceiveArea, slot));
  node.shared_total += kSlots;
  return side;
}

void expect_empty(World& world, const Node& node, DAT_EVD_HANDLE evd) {
  DAT_EVENT event{};
  if (world.check(node.table->evd_dequeue_func(evd, &event) != DAT_SUCCESS, "an unexpected event"))
    return;
  world.print_step("unexpected event", static_cast<std::uint64_t>(event.event_number));
}

void free_side(World& world, Side& side) {
  const DAT_PROVIDER* const table = side.node->table;
  if (side.ep == DAT_HANDLE_NULL) return;
  // Either order is right: a window may be freed before its EP or after it.
  const bool ep_first = world.chance(2);
  if (ep_first) world.success(table->ep_free_func(side.ep), "ep_free");
  for (Window& window : side.windows) world.success(table->rmr_free_func(window.rmr), "rmr_free");
  if (!ep_first) world.success(table->ep_free_func(side.ep), "ep_free");
  // Receives of an EP that was never connected are dropped without events, and no events are left.
  expect_empty(world, *side.node, side.receive_evd);
  expect_empty(world, *side.node, side.request_evd);
  world.success(table->evd_free_func(side.receive_evd), "evd_free");
  world.success(table->evd_free_func(side.request_evd), "evd_free");
}

void free_srq(World& world, Node& node) {
  post_owed(world, node, true);
  DAT_SRQ_PARAM param{};
  if (!world.success(node.table->srq_query_func(node.srq, DAT_SRQ_FIELD_ALL, &param), "srq_query"))
    return;
  const auto total = static_cast<DAT_COUNT>(node.shared_total);
  world.check(node.shared.size() == node.shared_total, "a buffer of an SRQ is lost");
  world.check(param.available_dto_count == total, "an SRQ has lost count of its free buffers");
  world.check(param.outstanding_dto_count == total, "an SRQ has lost count of its buffers");
  world.success(node.table->srq_free_func(node.srq), "srq_free");
}

void free_node(World& world, Node& node) {
  expect_empty(world, node, node.connections);
  expect_empty(world, node, node.arrivals);
  expect_empty(world, node, node.async);
  if (node.srq != DAT_HANDLE_NULL) free_srq(world, node);
  world.success(node.table->psp_free_func(node.psp), "psp_free");
  world.success(node.table->lmr_free_func(node.lmr), "lmr_free");
  world.success(node.table->pz_free_func(node.pz), "pz_free");
  for (DAT_EVD_HANDLE evd : {node.pump, node.connections, node.arrivals})
    world.success(node.table->evd_free_func(evd), "evd_free");
}

}  // namespace

bool World::check(bool condition, const char* what) {
  if (!condition && outcome.violation.empty()) outcome.violation = what;
  return condition;
}

bool World::success(DAT_RETURN status, const char* what) {
  if (status == DAT_SUCCESS) return true;
  if (outcome.violation.empty()) {
    char text[160];
    std::snprintf(text, sizeof text, "%s returns %#x", what, static_cast<unsigned>(status));
    outcome.violation = text;
  }
  return false;
}

void World::print_step(const char* what, std::uint64_t number) const {
  if (!options.verbose) return;
  const auto since = Kernel::instance().now().time_since_epoch() - std::chrono::hours(1);
  std::printf("%12.3f us %s %llu\n", std::chrono::duration<double, std::micro>(since).count(), what,
              static_cast<unsigned long long>(number));
}

bool open_world(World& world) {
  world.nodes = std::vector<Node>(2 + world.below(kMaxNodes - 1));
  for (std::size_t i = 0; i < world.nodes.size(); ++i) {
    if (!open_node(world, i)) return false;
    if (world.chance(3) && !make_srq(world, world.nodes[i])) return false;
  }
  const std::size_t connections = world.options.small ? 1 : 1 + world.below(kMaxConnections);
  for (std::size_t i = 0; i < connections && world.good(); ++i) {
    // Some connections connect a node to itself.
    const std::size_t from = world.below(world.nodes.size());
    const std::size_t to = (from + (world.chance(8) ? 0 : 1)) % world.nodes.size();
    world.clients.push_back(make_side(world, world.nodes[from], true));
    world.servers.push_back(make_side(world, world.nodes[to], false));
    world.clients.back()->state = world.servers.back()->state = Side::State::kIdle;
  }
  return world.good();
}

void close_world(World& world) {
  // In a failed run objects may be in use; the abrupt close frees them.
  const bool orderly = world.good();
  if (orderly) world.each_side([&](Side& side) { free_side(world, side); });
  for (Node& node : world.nodes) {
    if (node.ia == DAT_HANDLE_NULL) continue;
    if (orderly) free_node(world, node);
    world.success(node.table->ia_close_func(
                      node.ia, orderly ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG),
                  "ia_close");
    fake::note_close(node.ia);
  }
}

}  // namespace udapl::sim
