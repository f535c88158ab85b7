// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "fake_peers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "fake_dat.h"

using namespace fuzz;

namespace {

struct Message {
  std::vector<std::byte> bytes;
  bool fill = false, wrong = false;
};

std::span<const std::byte> input;
std::deque<std::vector<std::byte>> greetings;  // private data of requests not delivered yet
bool ends = false;                             // the adapter fails when nothing happens any more
unsigned idle_turns = 0;                       // number of consecutive turns without an event
constexpr unsigned kIdle = 20;
bool requests_fail = false;

std::optional<Message> next_message() {
  if (input.size() < 2) return std::nullopt;
  const unsigned head =
      std::to_integer<unsigned>(input[0]) << 8 | std::to_integer<unsigned>(input[1]);
  input = input.subspan(2);
  const std::size_t size = std::min<std::size_t>(head & fuzz::kLength, input.size());
  Message message{{input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size)},
                  (head & fuzz::kFill) != 0,
                  (head & fuzz::kWrong) != 0};
  input = input.subspan(size);
  return message;
}

// Delivers the peer's next message, or its disconnect.
void deliver(Endpoint& ep) {
  if (ep.over || ep.posted.empty()) return;
  const auto message = next_message();
  if (!message) return end(ep);
  const Receive receive = std::move(ep.posted.front());
  ep.posted.pop_front();
  std::size_t room = 0;
  for (const DAT_LMR_TRIPLET& segment : receive.segments) room += segment.segment_length;
  std::vector<std::byte> bytes = message->bytes;
  if (message->fill) bytes.resize(room);
  if (message->wrong || bytes.size() > room) {
    complete(*ep.receives, ep, DAT_DTO_RECEIVE, receive.cookie,
             message->wrong ? DAT_DTO_ERR_TRANSPORT : DAT_DTO_ERR_LOCAL_LENGTH, 0);
    return end(ep);
  }
  std::span<const std::byte> rest(bytes);
  for (const DAT_LMR_TRIPLET& segment : receive.segments) {
    const std::size_t size = std::min<std::size_t>(segment.segment_length, rest.size());
    if (size > 0) std::memcpy(reinterpret_cast<void*>(segment.virtual_address), rest.data(), size);
    rest = rest.subspan(size);
  }
  complete(*ep.receives, ep, DAT_DTO_RECEIVE, receive.cookie, DAT_DTO_SUCCESS, bytes.size());
}

// Delivers the next message, to each endpoint in turn.
void deliver_to_next(Queue& from) {
  for (std::size_t i = 0; i < from.receivers.size() && from.events.empty(); ++i) {
    Endpoint* const next = from.receivers.front();
    from.receivers.pop_front();
    from.receivers.push_back(next);
    deliver(*next);
  }
}

void deliver_request(Queue& to) {
  if (greetings.empty()) return;
  auto greeting = std::make_unique<std::vector<std::byte>>(std::move(greetings.front()));
  greetings.pop_front();
  DAT_EVENT request{};
  request.event_number = DAT_CONNECTION_REQUEST_EVENT;
  request.event_data.cr_arrival_event_data.cr_handle = greeting.get();
  arrived.emplace(greeting.get(), std::move(greeting));
  to.events.push_back(request);
}

// The number of completions of requests that have not been dequeued yet.
std::size_t completed(const Endpoint& ep) {
  return static_cast<std::size_t>(std::ranges::count_if(ep.requests->events, [&](const auto& one) {
    const DAT_DTO_COMPLETION_EVENT_DATA& done = one.event_data.dto_completion_event_data;
    return done.ep_handle == &ep && done.operation != DAT_DTO_RECEIVE;
  }));
}

}  // namespace

void fuzz::begin(std::span<const std::byte> bytes, std::size_t peers) {
  require(queues.empty() && endpoints.empty() && regions.empty());
  input = bytes;
  arrived.clear();
  greetings.clear();
  requests_fail = false;
  for (std::size_t i = 0; i < peers; ++i) {
    const auto first = next_message();
    if (!first && i > 0) break;
    greetings.push_back(first ? first->bytes : std::vector<std::byte>());
    if (first && first->wrong) requests_fail = true;
  }
  ends = peers > 1;
  idle_turns = 0;
}

Queue& fuzz::queue(DAT_HANDLE handle) {
  const auto found = queues.find(handle);
  require(found != queues.end());
  return *found->second;
}

Endpoint& fuzz::endpoint(DAT_HANDLE handle) {
  const auto found = endpoints.find(handle);
  require(found != endpoints.end());
  return *found->second;
}

void fuzz::check(std::span<const DAT_LMR_TRIPLET> segments) {
  for (const DAT_LMR_TRIPLET& segment : segments) {
    const auto found = regions.find(segment.lmr_context);
    require(found != regions.end());
    const Region& region = found->second;
    require(segment.virtual_address >= region.begin && segment.segment_length <= region.length);
    require(segment.virtual_address - region.begin <= region.length - segment.segment_length);
  }
}

void fuzz::complete(Queue& to, Endpoint& of, DAT_DTOS operation, DAT_DTO_COOKIE cookie,
                    DAT_DTO_COMPLETION_STATUS status, std::size_t length) {
  require(to.events.size() < to.length);
  DAT_EVENT event{};
  event.event_number = DAT_DTO_COMPLETION_EVENT;
  event.event_data.dto_completion_event_data.ep_handle = &of;
  event.event_data.dto_completion_event_data.operation = operation;
  event.event_data.dto_completion_event_data.user_cookie = cookie;
  event.event_data.dto_completion_event_data.status = status;
  event.event_data.dto_completion_event_data.transfered_length =
      static_cast<DAT_SEG_LENGTH>(length);
  to.events.push_back(event);
}

void fuzz::connection_event(Endpoint& of, DAT_EVENT_NUMBER number) {
  DAT_EVENT event{};
  event.event_number = number;
  event.event_data.connect_event_data.ep_handle = &of;
  of.connection->events.push_back(event);
}

void fuzz::end(Endpoint& ep) {
  if (ep.over) return;
  ep.over = true;
  for (; !ep.posted.empty(); ep.posted.pop_front())
    complete(*ep.receives, ep, DAT_DTO_RECEIVE, ep.posted.front().cookie, DAT_DTO_ERR_FLUSHED, 0);
  connection_event(ep, DAT_CONNECTION_EVENT_DISCONNECTED);
}

DAT_RETURN fuzz::take(Queue& from, DAT_EVENT* event) {
  const bool has_requests = (from.flags & DAT_EVD_CR_FLAG) != 0;
  if (from.events.empty()) deliver_to_next(from);
  if (from.events.empty() && from.connected != nullptr) end(*from.connected);
  if (from.events.empty() && has_requests) deliver_request(from);
  if (from.events.empty()) {
    const bool over = ends && has_requests && ++idle_turns > kIdle;
    return failure(over ? DAT_INVALID_HANDLE : DAT_QUEUE_EMPTY);
  }
  idle_turns = 0;
  *event = from.events.front();
  from.events.pop_front();
  return DAT_SUCCESS;
}

DAT_RETURN fuzz::request(Endpoint& ep, std::span<const DAT_LMR_TRIPLET> segments,
                         DAT_DTO_COOKIE cookie) {
  check(segments);
  if (ep.over) return failure(DAT_INVALID_STATE);
  if (completed(ep) >= ep.max_requests || ep.requests->events.size() >= ep.requests->length)
    return failure(DAT_INSUFFICIENT_RESOURCES);
  std::size_t size = 0;
  for (const DAT_LMR_TRIPLET& segment : segments) size += segment.segment_length;
  require(size <= fuzz::kLargest);
  complete(*ep.requests, ep, DAT_DTO_SEND, cookie,
           requests_fail ? DAT_DTO_ERR_FLUSHED : DAT_DTO_SUCCESS, size);
  return DAT_SUCCESS;
}
