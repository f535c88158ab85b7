// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The application's use of memory windows and atomics. A key is revoked only when no request that
// uses it can be in flight; but now and then a side uses a revoked one.
#include "tests/sim/world.h"

#include <dat/dat_ib_extensions.h>

#include <cstring>
#include <utility>

namespace udapl::sim {

namespace {

std::byte* begin_of(const Side& side, std::size_t window) {
  return window == Window::kSource ? side.source() : side.slot(kTargetArea, 0);
}

// Whether the owner can be sure that no request of the peer for the window is in flight.
bool unused(const Side& owner, const Window& window) {
  return window.reads == 0 && window.last_write <= owner.writes_seen;
}

}  // namespace

// Binds a window that is not in use, even if it is bound; sometimes unbinds it.
void bind_window(World& world, Side& side) {
  const std::size_t index = world.below(side.windows.size());
  Window& window = side.windows[index];
  const bool bound = window.state == Window::State::kBound;
  if (!has_slot(side, Kind::kBind) || !unused(side, window) ||
      (!bound && window.state != Window::State::kUnbound))
    return;
  const bool unbind = bound && world.chance(3);
  const bool zero_based = world.chance(2);
  DAT_LMR_TRIPLET range{};
  range.lmr_context = side.node->lmr_context;
  range.virtual_address = reinterpret_cast<std::uintptr_t>(begin_of(side, index));
  if (!unbind)
    range.segment_length =
        static_cast<DAT_SEG_LENGTH>(index == Window::kSource ? kSourceSize : kAreaSize);
  const int rights =
      index == Window::kSource ? DAT_MEM_PRIV_REMOTE_READ_FLAG : DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
  DAT_RMR_CONTEXT context = 0;
  if (!accepted(world,
                side.node->table->rmr_bind_func(
                    window.rmr, side.node->lmr, &range, static_cast<DAT_MEM_PRIV_FLAGS>(rights),
                    zero_based ? DAT_VA_TYPE_ZB : DAT_VA_TYPE_VA, side.ep,
                    cookie_of(side.next_cookie), DAT_COMPLETION_DEFAULT_FLAG, &context),
                "rmr_bind"))
    return;
  Request& request = posted(side, Kind::kBind);
  request.window = index;
  request.context = unbind ? 0 : context;
  window.zero_based = zero_based;
  window.state = Window::State::kBinding;
}

// Posts a Send that invalidates the peer's window, after all requests that use it.
void invalidate_window(World& world, Side& side) {
  const std::size_t index = world.below(side.windows.size());
  Window& window = side.peer->windows[index];
  if (!has_slot(side, Kind::kSend) || side.credits == 0 || !window.of_ep || window.reads != 0 ||
      window.state != Window::State::kBound)
    return;
  const std::uint64_t number = side.posted[static_cast<std::size_t>(Kind::kSend)];
  std::byte* const data = side.slot(kSendArea, number);
  data[0] = pattern(number, 0);
  std::array<DAT_LMR_TRIPLET, 4> segments{};
  const DAT_COUNT count = cut(world, side, data, 1, segments);
  if (!accepted(world,
                side.node->table->ep_post_send_with_invalidate_func(
                    side.ep, count, segments.data(), cookie_of(side.next_cookie),
                    DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, window.context),
                "post_send_with_invalidate"))
    return;
  posted(side, Kind::kSend).length = 1;
  side.messages.push_back(
      {number, 1, side.posted[static_cast<std::size_t>(Kind::kWrite)], false, 0, window.context});
  --side.credits;
  window.state = Window::State::kDying;
}

// Posts a request with the key of an earlier binding. It must break the connection and have no
// other effect.
void use_dead_key(World& world, Side& side) {
  const std::size_t index = world.below(side.windows.size());
  const DAT_RMR_CONTEXT key = side.peer->windows[index].stale;
  const bool reads = index == Window::kSource;
  if (key == 0 || !has_slot(side, reads ? Kind::kRead : Kind::kWrite)) return;
  const auto kind = static_cast<std::size_t>(reads ? Kind::kRead : Kind::kWrite);
  DAT_RMR_TRIPLET remote{};
  remote.rmr_context = key;
  remote.segment_length = sizeof kForbidden;
  if (!side.peer->windows[index].zero_based)
    remote.virtual_address = reinterpret_cast<std::uintptr_t>(begin_of(*side.peer, index));
  std::byte* const data = side.slot(reads ? kSinkArea : kWriteArea, side.posted[kind] + !reads);
  std::memcpy(data, &kForbidden, sizeof kForbidden);
  std::array<DAT_LMR_TRIPLET, 4> segments{};
  const DAT_COUNT count = cut(world, side, data, sizeof kForbidden, segments);
  const auto post =
      reads ? side.node->table->ep_post_rdma_read_func : side.node->table->ep_post_rdma_write_func;
  if (!accepted(world,
                post(side.ep, count, segments.data(), cookie_of(side.next_cookie), &remote,
                     DAT_COMPLETION_DEFAULT_FLAG),
                "a post with a dead key"))
    return;
  world.print_step("uses a dead key", key);
  Request& request = posted(side, reads ? Kind::kRead : Kind::kWrite);
  request.length = sizeof kForbidden;
  request.forbidden = true;
  side.disconnects = side.peer->disconnects = true;
}

// Only one connection changes the word of a side, so the result of each atomic is known.
void post_atomic(World& world, Side& side) {
  if (!has_slot(side, Kind::kAtomic)) return;
  const std::uint64_t number = side.posted[static_cast<std::size_t>(Kind::kAtomic)];
  DAT_LMR_TRIPLET local{};
  local.lmr_context = side.node->lmr_context;
  local.virtual_address = reinterpret_cast<std::uintptr_t>(side.words() + 1 + number % kSlots);
  local.segment_length = sizeof(std::uint64_t);
  DAT_RMR_TRIPLET remote{};
  remote.rmr_context = side.peer->node->rmr_context;
  remote.virtual_address = reinterpret_cast<std::uintptr_t>(side.peer->words());
  remote.segment_length = sizeof(std::uint64_t);
  const std::uint64_t operand = world.rng();
  std::uint64_t after = side.word + operand;
  DAT_RETURN status = DAT_SUCCESS;
  if (world.chance(2)) {
    status =
        post_extension(side, DAT_IB_FETCH_AND_ADD_OP, operand, &local, cookie_of(side.next_cookie),
                       &remote, static_cast<int>(DAT_COMPLETION_DEFAULT_FLAG));
  } else {
    const std::uint64_t compare = world.chance(2) ? side.word : operand;
    after = compare == side.word ? operand : side.word;
    status = post_extension(side, DAT_IB_CMP_AND_SWAP_OP, compare, operand, &local,
                            cookie_of(side.next_cookie), &remote,
                            static_cast<int>(DAT_COMPLETION_DEFAULT_FLAG));
  }
  if (!accepted(world, status, "an atomic")) return;
  Request& request = posted(side, Kind::kAtomic);
  request.length = sizeof(std::uint64_t);
  request.original = std::exchange(side.word, after);
}

DAT_RMR_TRIPLET key_to(World& world, Side& side, std::size_t window, const std::byte* data,
                       std::size_t length, bool& by_window) {
  const Side& owner = *side.peer;
  const Window& found = owner.windows[window];
  DAT_RMR_TRIPLET result{};
  result.rmr_context = owner.node->rmr_context;
  result.virtual_address = reinterpret_cast<std::uintptr_t>(data);
  result.segment_length = static_cast<DAT_SEG_LENGTH>(length);
  by_window = found.state == Window::State::kBound && world.chance(2);
  if (!by_window) return result;
  result.rmr_context = found.context;
  if (found.zero_based)
    result.virtual_address = static_cast<DAT_VADDR>(data - begin_of(owner, window));
  return result;
}

}  // namespace udapl::sim
