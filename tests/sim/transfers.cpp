// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The application's posts: Sends, Writes, Reads, receives; and its disconnects.
#include "tests/sim/world.h"

#include <dat/dat_ib_extensions.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>

namespace udapl::sim {

namespace {

std::size_t random_length(World& world, std::size_t most) {
  const std::size_t limit = world.slow || world.options.small ? 300 : most;
  return world.chance(3) ? world.below(limit + 1)
                         : world.below(std::min<std::size_t>(limit, 200) + 1);
}

// Some requests have a suppressed completion, some wait for the Reads before them.
DAT_COMPLETION_FLAGS random_flags(World& world, bool& suppressed) {
  suppressed = world.chance(8);
  int flags = suppressed ? DAT_COMPLETION_SUPPRESS_FLAG : DAT_COMPLETION_DEFAULT_FLAG;
  if (world.chance(8)) flags |= DAT_COMPLETION_BARRIER_FENCE_FLAG;
  return static_cast<DAT_COMPLETION_FLAGS>(flags);
}

void send(World& world, Side& side) {
  if (!has_slot(side, Kind::kSend) || side.credits == 0) return;
  const std::uint64_t number = side.posted[static_cast<std::size_t>(Kind::kSend)];
  const std::size_t length = random_length(world, kSlotSize);
  std::byte* const data = side.slot(kSendArea, number);
  for (std::size_t at = 0; at < length; ++at) data[at] = pattern(number, at);
  std::array<DAT_LMR_TRIPLET, 4> segments{};
  const DAT_COUNT count = cut(world, side, data, length, segments);
  bool suppressed = false;
  const DAT_COMPLETION_FLAGS flags = random_flags(world, suppressed);
  if (!accepted(world,
                side.node->table->ep_post_send_func(side.ep, count, segments.data(),
                                                    cookie_of(side.next_cookie), flags),
                "post_send"))
    return;
  Request& request = posted(side, Kind::kSend);
  request.length = length;
  request.suppressed = suppressed;
  side.messages.push_back(
      {number, length, side.posted[static_cast<std::size_t>(Kind::kWrite)], false, 0, 0});
  --side.credits;
  if (world.options.saboteur && length > 0) data[length / 2] ^= std::byte{1};
}

// By the time the peer checks a slot, it may contain a later write: so every write begins with its
// number. With immediate data it is a message, too.
void write(World& world, Side& side, bool immediate) {
  if (!has_slot(side, Kind::kWrite) || (immediate && side.credits == 0)) return;
  const std::uint64_t number = side.posted[static_cast<std::size_t>(Kind::kWrite)] + 1;
  const std::size_t length = 8 + random_length(world, kSlotSize - 8);
  std::byte* const data = side.slot(kWriteArea, number);
  for (std::size_t at = 8; at < length; ++at) data[at] = pattern(number, at);
  std::memcpy(data, &number, sizeof number);
  std::array<DAT_LMR_TRIPLET, 4> segments{};
  const DAT_COUNT count = cut(world, side, data, length, segments);
  bool by_window = false;
  DAT_RMR_TRIPLET remote =
      key_to(world, side, Window::kTarget, side.peer->slot(kTargetArea, number), length, by_window);
  bool suppressed = false;
  const DAT_COMPLETION_FLAGS flags = random_flags(world, suppressed);
  const auto value = static_cast<std::uint32_t>(number * 2654435761U);
  const DAT_RETURN status =
      immediate
          ? post_extension(side, DAT_IB_RDMA_WRITE_IMMED_OP, count, segments.data(),
                           cookie_of(side.next_cookie), &remote, value, static_cast<int>(flags))
          : side.node->table->ep_post_rdma_write_func(side.ep, count, segments.data(),
                                                      cookie_of(side.next_cookie), &remote, flags);
  if (!accepted(world, status, "post_rdma_write")) return;
  Request& request = posted(side, Kind::kWrite);
  request.length = length;
  request.immediate = immediate;
  request.suppressed = suppressed;
  if (by_window) side.peer->windows[Window::kTarget].last_write = number;
  if (!immediate) return;
  side.messages.push_back({0, length, number, true, value, 0});
  --side.credits;
}

void read(World& world, Side& side) {
  if (!has_slot(side, Kind::kRead)) return;
  const std::uint64_t number = side.posted[static_cast<std::size_t>(Kind::kRead)];
  const std::size_t length = random_length(world, kSlotSize);
  const std::size_t offset = world.below(kSourceSize - length + 1);
  std::array<DAT_LMR_TRIPLET, 4> segments{};
  std::byte* const data = side.slot(kSinkArea, number);
  std::memset(data, 0xEE, length);
  const DAT_COUNT count = cut(world, side, data, length, segments);
  bool by_window = false;
  const DAT_RMR_TRIPLET remote =
      key_to(world, side, Window::kSource, side.peer->source() + offset, length, by_window);
  if (!accepted(world,
                side.node->table->ep_post_rdma_read_func(side.ep, count, segments.data(),
                                                         cookie_of(side.next_cookie), &remote,
                                                         DAT_COMPLETION_DEFAULT_FLAG),
                "post_rdma_read"))
    return;
  Request& request = posted(side, Kind::kRead);
  request.length = length;
  request.offset = offset;
  request.by_window = by_window;
  if (by_window) ++side.peer->windows[Window::kSource].reads;
}

}  // namespace

// ---- shared helpers ----------------------------------------------------------------------------

DAT_DTO_COOKIE cookie_of(std::uint64_t value) {
  DAT_DTO_COOKIE result{};
  result.as_64 = value;
  return result;
}

DAT_RETURN post_extension(const Side& side, DAT_EXTENDED_OP operation, ...) {
  va_list arguments;
  va_start(arguments, operation);
  const DAT_RETURN status = side.node->table->handle_extendedop_func(side.ep, operation, arguments);
  va_end(arguments);
  return status;
}

// Cuts the bytes into one to four segments.
DAT_COUNT cut(World& world, const Side& side, std::byte* data, std::size_t length,
              std::array<DAT_LMR_TRIPLET, 4>& segments) {
  const auto count = static_cast<std::size_t>(1 + world.below(4));
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = i + 1 == count ? length - at : world.below(length - at + 1);
    segments[i] = {};
    segments[i].lmr_context = side.node->lmr_context;
    segments[i].virtual_address = reinterpret_cast<std::uintptr_t>(data + at);
    segments[i].segment_length = static_cast<DAT_SEG_LENGTH>(size);
    at += size;
  }
  return static_cast<DAT_COUNT>(count);
}

bool accepted(World& world, DAT_RETURN status, const char* what) {
  if (DAT_GET_TYPE(status) == DAT_INVALID_STATE) return false;
  return world.success(status, what);
}

Request& posted(Side& side, Kind kind) {
  Request& request = side.requests.emplace_back();
  request.cookie = side.next_cookie++;
  request.kind = kind;
  request.number = side.posted[static_cast<std::size_t>(kind)]++;
  return request;
}

bool has_slot(const Side& side, Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return side.posted[index] - side.done[index] < kSlots;
}

namespace {

void post_receive_now(World& world, Side& side) {
  const std::size_t slot = side.receives_posted % kSlots;
  std::array<DAT_LMR_TRIPLET, 4> segments{};
  const DAT_COUNT count = cut(world, side, side.slot(kReceiveArea, slot), kSlotSize, segments);
  const std::uint64_t number = side.next_cookie++;
  if (!world.success(
          side.node->table->ep_post_recv_func(side.ep, count, segments.data(), cookie_of(number),
                                              DAT_COMPLETION_DEFAULT_FLAG),
          "post_recv"))
    return;
  side.receives.push_back({number, slot});
  ++side.receives_posted;
}

bool postpones(World& world) { return world.late && world.lateness() % 4 != 0; }

void post_shared_now(World& world, Node& node, std::byte* room) {
  Side owner;
  owner.node = &node;
  std::array<DAT_LMR_TRIPLET, 4> segments{};
  const DAT_COUNT count = cut(world, owner, room, kSlotSize, segments);
  const std::uint64_t number = node.next_shared++;
  if (world.success(
          node.table->srq_post_recv_func(node.srq, count, segments.data(), cookie_of(number)),
          "srq_post_recv"))
    node.shared.emplace(number, room);
}

}  // namespace

// The peer may use the receive at once, even if posting it is postponed.
void post_receive(World& world, Side& side) {
  if (side.postponed_receives > 0 || postpones(world))
    ++side.postponed_receives;
  else
    post_receive_now(world, side);
  if (side.peer != nullptr) ++side.peer->credits;
}

void post_shared(World& world, Node& node, std::byte* room) {
  if (!node.postponed_buffers.empty() || postpones(world))
    node.postponed_buffers.push_back(room);
  else
    post_shared_now(world, node, room);
}

void post_owed(World& world, Node& node, bool all) {
  const auto now = [&] { return all || world.lateness() % 4 == 0; };
  while (!node.postponed_buffers.empty() && world.good() && now()) {
    post_shared_now(world, node, node.postponed_buffers.front());
    node.postponed_buffers.pop_front();
  }
  world.each_side([&](Side& side) {
    const bool connected = side.state == Side::State::kConnected && !side.disconnects;
    while (side.node == &node && connected && side.postponed_receives > 0 && world.good() &&
           now()) {
      --side.postponed_receives;
      post_receive_now(world, side);
    }
  });
}

void act(World& world, Side& side) {
  if (side.state != Side::State::kConnected || side.peer == nullptr || side.disconnects) return;
  switch (world.below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return send(world, side);
    case 4:
    case 5:
      return write(world, side, false);
    case 6:
      return write(world, side, true);
    case 7:
    case 8:
      return read(world, side);
    case 9:
      return post_atomic(world, side);
    case 10:
      return bind_window(world, side);
    default:
      return world.chance(40) ? use_dead_key(world, side) : invalidate_window(world, side);
  }
}

void disconnect(World& world, Side& side) {
  if (side.state != Side::State::kConnected || side.disconnects) return;
  const bool graceful = world.chance(2);
  world.print_step(graceful ? "graceful disconnect" : "abrupt disconnect", side.next_cookie);
  const DAT_RETURN status = side.node->table->ep_disconnect_func(
      side.ep, graceful ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG);
  // The connection may have ended a moment ago; then the event is queued.
  if (DAT_GET_TYPE(status) != DAT_INVALID_STATE) world.success(status, "ep_disconnect");
  side.disconnects = true;
  if (side.peer != nullptr) side.peer->disconnects = true;
}

}  // namespace udapl::sim
