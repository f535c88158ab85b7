// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the application sees, and the checks of that.
#include "tests/sim/world.h"

#include <dat/dat_ib_extensions.h>

#include <cstring>
#include <utility>

namespace udapl::sim {

namespace {

DAT_IB_EXTENSION_EVENT_DATA extension_of(const DAT_EVENT& event) {
  DAT_IB_EXTENSION_EVENT_DATA result{};
  std::memcpy(&result, event.event_extension_data, sizeof result);
  return result;
}

// ---- requests ----------------------------------------------------------------------------------

void on_bound(Side& side, const Request& request, bool success) {
  Window& window = side.windows[request.window];
  if (!success) {
    window.state = Window::State::kUnbound;
    return;
  }
  if (window.context != 0) window.stale = window.context;
  window.context = request.context;
  window.state = request.context != 0 ? Window::State::kBound : Window::State::kUnbound;
}

void on_request_success(World& world, Side& side, const Request& request) {
  world.check_content(!side.failed_request, "a request succeeds behind one that failed");
  if (request.kind == Kind::kAtomic) {
    world.check_content(side.words()[1 + request.number % kSlots] == request.original,
                        "an atomic returned a wrong value");
    return;
  }
  if (request.kind != Kind::kRead) return;
  world.check_content(!request.forbidden, "a read by a dead key succeeded");
  if (request.by_window && side.peer != nullptr) --side.peer->windows[Window::kSource].reads;
  if (request.forbidden) return;
  const std::byte* const data = side.slot(kSinkArea, request.number);
  for (std::size_t at = 0; at < request.length; ++at)
    if (!world.check_content(data[at] == pattern(99, request.offset + at),
                             "an RDMA read brought wrong data") ||
        !world.trusted())
      return;
}

void finish_request(World& world, Side& side, bool success) {
  const Request request = side.requests.front();
  side.requests.pop_front();
  ++side.done[static_cast<std::size_t>(request.kind)];
  world.print_step(success ? "request done" : "request failed", request.cookie);
  if (request.kind == Kind::kBind) on_bound(side, request, success);
  if (success) return on_request_success(world, side, request);
  side.failed_request = true;
  world.check(side.disconnects || Kernel::instance().fault_happened(),
              "a fair network, and a request fails");
}

// Suppressed requests have succeeded if a later request has completed.
void skip_silent(World& world, Side& side, std::uint64_t cookie) {
  while (!side.requests.empty() && side.requests.front().suppressed &&
         side.requests.front().cookie != cookie) {
    if (!world.check(!side.failed_request, "a request that failed was silent")) return;
    finish_request(world, side, true);
  }
}

int event_of(const Request& request) {
  if (request.kind == Kind::kBind) return DAT_RMR_BIND_COMPLETION_EVENT;
  return request.kind == Kind::kAtomic || request.immediate ? static_cast<int>(DAT_IB_DTO_EVENT)
                                                            : DAT_DTO_COMPLETION_EVENT;
}

void on_request_done(World& world, Side& side, const DAT_EVENT& event) {
  const bool bind = event.event_number == DAT_RMR_BIND_COMPLETION_EVENT;
  const DAT_DTO_COMPLETION_EVENT_DATA& dto = event.event_data.dto_completion_event_data;
  const DAT_RMR_BIND_COMPLETION_EVENT_DATA& rmr = event.event_data.rmr_completion_event_data;
  const std::uint64_t cookie = bind ? rmr.user_cookie.as_64 : dto.user_cookie.as_64;
  const DAT_DTO_COMPLETION_STATUS status = bind ? rmr.status : dto.status;
  ++world.outcome.completions;
  world.note(cookie * 16 + static_cast<std::uint64_t>(status));
  skip_silent(world, side, cookie);
  if (!world.check(!side.requests.empty(), "a request completes twice") ||
      !world.check(side.requests.front().cookie == cookie, "requests out of order"))
    return;
  const Request& request = side.requests.front();
  if (!world.check(static_cast<int>(event.event_number) == event_of(request),
                   "an event of another kind") ||
      !world.check(
          bind ? rmr.rmr_handle == side.windows[request.window].rmr : dto.ep_handle == side.ep,
          "a completion of another object") ||
      !world.check(status != DAT_DTO_SUCCESS || !request.suppressed,
                   "a request that was to be silent is not"))
    return;
  if (!bind && status == DAT_DTO_SUCCESS)
    world.check(dto.transfered_length == request.length, "a request has another length");
  finish_request(world, side, status == DAT_DTO_SUCCESS);
}

// ---- receives ----------------------------------------------------------------------------------

// Checks that each slot contains the write before the message, or a later one.
void look_at_targets(World& world, Side& side, std::uint64_t writes) {
  for (std::uint64_t number = writes; number > 0 && number + kSlots > writes; --number) {
    std::uint64_t found = 0;
    std::memcpy(&found, side.slot(kTargetArea, number), sizeof found);
    world.check_content(found >= number && (found - number) % kSlots == 0,
                        "a message arrived before a write that was posted earlier");
  }
  side.writes_seen = writes;
}

void on_window_taken(World& world, Side& side, DAT_RMR_CONTEXT context) {
  for (Window& window : side.windows) {
    if (window.context != context) continue;
    window.stale = std::exchange(window.context, 0);
    window.state = Window::State::kUnbound;
    return;
  }
  world.check_content(false, "a window that does not exist was removed");
}

void on_message(World& world, Side& side, const DAT_EVENT& event, const std::byte* data) {
  const DAT_DTO_COMPLETION_EVENT_DATA& done = event.event_data.dto_completion_event_data;
  if (side.peer == nullptr || side.state != Side::State::kConnected) return;
  if (!world.check_content(!side.peer->messages.empty(), "a message that was never sent") ||
      side.peer->messages.empty())
    return;
  const Message message = side.peer->messages.front();
  side.peer->messages.pop_front();
  const int operation = message.immediate          ? static_cast<int>(DAT_IB_DTO_RECV_IMMED)
                        : message.invalidates != 0 ? DAT_DTO_RECEIVE_WITH_INVALIDATE
                                                   : DAT_DTO_RECEIVE;
  world.check_content(static_cast<int>(done.operation) == operation, "a message of another kind");
  world.check_content(message.length == done.transfered_length, "a message has another length");
  look_at_targets(world, side, message.writes_before);
  if (message.immediate) {
    const DAT_IB_EXTENSION_EVENT_DATA extension = extension_of(event);
    world.check_content(
        extension.type == DAT_IB_RDMA_WRITE_IMMED_DATA && extension.val.immed.data == message.value,
        "immediate data are wrong");
    return;
  }
  for (std::size_t at = 0; at < message.length && world.trusted(); ++at)
    if (!world.check(data[at] == pattern(message.number, at), "a message has wrong data")) return;
  if (message.invalidates == 0 || !world.trusted()) return;
  world.check(done.rmr_context == message.invalidates, "another window was taken away");
  on_window_taken(world, side, done.rmr_context);
}

// The buffer of the receive that has completed; null if there was no such receive.
std::byte* take_room(World& world, Side& side, std::uint64_t cookie) {
  if (side.uses_srq) {
    const auto found = side.node->shared.find(cookie);
    if (!world.check(found != side.node->shared.end(), "a shared receive completes twice"))
      return nullptr;
    std::byte* const room = found->second;
    side.node->shared.erase(found);
    world.check(cookie > std::exchange(side.last_shared, cookie), "shared receives out of order");
    return room;
  }
  if (!world.check(!side.receives.empty(), "a receive completes twice") ||
      !world.check(side.receives.front().cookie == cookie, "receives out of order"))
    return nullptr;
  std::byte* const room = side.slot(kReceiveArea, side.receives.front().slot);
  side.receives.pop_front();
  return room;
}

void on_receive_done(World& world, Side& side, const DAT_EVENT& event) {
  const DAT_DTO_COMPLETION_EVENT_DATA& done = event.event_data.dto_completion_event_data;
  ++world.outcome.completions;
  world.note(done.user_cookie.as_64 * 16 + static_cast<std::uint64_t>(done.status));
  const bool extension = event.event_number == static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
  if (!world.check(event.event_number == DAT_DTO_COMPLETION_EVENT || extension,
                   "not a completion") ||
      !world.check(done.ep_handle == side.ep, "a completion of another endpoint"))
    return;
  std::byte* const room = take_room(world, side, done.user_cookie.as_64);
  if (room == nullptr) return;
  const bool success = done.status == DAT_DTO_SUCCESS;
  world.print_step(success ? "receive done" : "receive flushed", done.user_cookie.as_64);
  if (success) {
    world.check(!side.failed_receive, "a receive succeeds behind one that failed");
    on_message(world, side, event, room);
  } else {
    side.failed_receive = true;
  }
  if (!world.good()) return;
  if (side.uses_srq) {
    post_shared(world, *side.node, room);
    if (side.peer != nullptr && success) ++side.peer->credits;
  } else if (success && !side.disconnects && side.state == Side::State::kConnected) {
    post_receive(world, side);
  }
}

// ---- events of an adapter ----------------------------------------------------------------------

// Handles the end of an EP with an SRQ, and an SRQ that runs low after a mark was set. Every open
// IA of the adapter gets these events.
void on_async(World& world, Node& node, const DAT_EVENT& event) {
  const DAT_ASYNCH_ERROR_EVENT_DATA& data = event.event_data.asynch_error_event_data;
  world.note(static_cast<std::uint64_t>(data.reason) + 7);
  if (!world.check(event.event_number == DAT_ASYNC_ERROR_EP_BROKEN, "an asynchronous error"))
    return;
  for (Node& owner : world.nodes) {
    if (data.dat_handle != owner.srq || owner.srq == DAT_HANDLE_NULL) continue;
    if (&owner != &node) return;
    world.check(data.reason == DAT_SRQ_LOW_WATERMARK_EVENT && node.watermarks_armed-- > 0,
                "a low watermark that was never set");
    return;
  }
  Side* const side = side_of(world, data.dat_handle);
  if (!world.check(side != nullptr && side->uses_srq && data.reason == DAT_EP_OTHER_ERROR,
                   "an asynchronous error of something else") ||
      side->node != &node)
    return;
  world.check(++side->srq_releases <= side->attempts, "an endpoint lets go of its SRQ twice");
}

void look_at_connections(World& world, Node& node) {
  DAT_EVENT event{};
  while (node.table->evd_dequeue_func(node.connections, &event) == DAT_SUCCESS)
    on_connection(world, event);
}

void look_at_transfers(World& world, Side& side) {
  DAT_EVENT event{};
  const DAT_PROVIDER* const table = side.node->table;
  while (world.good() && table->evd_dequeue_func(side.request_evd, &event) == DAT_SUCCESS)
    on_request_done(world, side, event);
  while (world.good() && table->evd_dequeue_func(side.receive_evd, &event) == DAT_SUCCESS)
    on_receive_done(world, side, event);
}

}  // namespace

void look(World& world, Node& node) {
  DAT_EVENT event{};
  // If many dequeues in a row find nothing, only some of them drive the adapter.
  constexpr int kEnough = 4;
  for (int i = 0; i < kEnough; ++i)
    world.check(node.table->evd_dequeue_func(node.pump, &event) != DAT_SUCCESS,
                "an event in an unused EVD");
  while (node.table->evd_dequeue_func(node.async, &event) == DAT_SUCCESS)
    on_async(world, node, event);
  while (node.table->evd_dequeue_func(node.arrivals, &event) == DAT_SUCCESS)
    on_arrival(world, node, event);
  // Sees the ends of connections before what they flushed, or the other way round.
  if (world.chance(2)) look_at_connections(world, node);
  world.each_side([&](Side& side) {
    if (side.node != &node) return;
    // Sometimes the application is slow.
    if (world.chance(4) && side.state == Side::State::kConnected) return;
    look_at_transfers(world, side);
  });
  look_at_connections(world, node);
}

// Checks that nothing is outstanding, and allows a new connection.
void settle(World& world, Side& side) {
  if (side.state != Side::State::kEnded) return;
  skip_silent(world, side, 0);
  world.check(side.requests.empty(), "a request never completed");
  world.check(side.receives.empty(), "a receive never completed");
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    std::uint64_t found = 0;
    std::memcpy(&found, side.slot(kTargetArea, slot), sizeof found);
    world.check_content(found != kForbidden, "a write by a dead key was placed");
  }
  for (Window& window : side.windows) {
    window.reads = window.last_write = 0;
    const bool lost = window.of_ep || window.state != Window::State::kBound;
    if (!lost) continue;
    if (window.of_ep && window.context != 0) window.stale = window.context;
    window.context = 0;
    window.state = Window::State::kUnbound;
  }
  if (world.success(side.node->table->ep_reset_func(side.ep), "ep_reset"))
    side.state = Side::State::kIdle;
}

void prepare(World& world, Side& side) {
  side.peer = nullptr;
  side.messages.clear();
  side.posted = side.done = {};
  side.credits = side.writes_seen = side.word = 0;
  side.postponed_receives = 0;
  side.receives_posted = side.receives.size();  // left if no peer has connected to the EP
  side.disconnects = side.failed_request = side.failed_receive = false;
  for (std::size_t at = 0; at < kSourceSize; ++at) side.source()[at] = pattern(99, at);
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    std::memset(side.slot(kTargetArea, slot), 0, sizeof(std::uint64_t));
  side.words()[0] = 0;
  while (!side.uses_srq && side.receives.size() + side.postponed_receives < kSlots && world.good())
    post_receive(world, side);
}

}  // namespace udapl::sim
