// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// SendQueue: requests that need no message, or whose message goes out in one go.
#include "providers/soft/send_queue.h"

#include <algorithm>
#include <array>

namespace udapl::soft {

// What cannot be read any more begin() reports.
bool SendQueue::send_short() noexcept {
  constexpr std::size_t kMostGathered = 64;
  Request& request = requests_.at(built_);
  const bool write = request.kind == RequestKind::kWrite;
  const std::size_t most = request.segment_count > 1 ? kMostGathered
                           : write                   ? Link::kMostShortWrite
                                                     : Link::kMostShortSend;
  if ((!write && request.kind != RequestKind::kSend) || request.invalidate || request.length > most)
    return false;
  std::array<std::byte, kMostGathered> gathered;
  std::span<const std::byte> payload(gathered.data(), request.length);
  MrTable::Pin pin;
  const Segment* const segments = requests_.segments(built_);
  std::byte* end = gathered.data();
  for (std::uint32_t i = 0; i != request.segment_count; ++i) {
    pin = shared_.memory.pin(segments[i].ref);
    if (!pin) return false;
    if (request.segment_count == 1)
      payload = {segments[i].address, segments[i].length};
    else
      end = std::copy_n(segments[i].address, segments[i].length, end);
  }
  const bool solicited = (request.flags & transport::kSolicited) != 0;
  const iwarp::Opcode opcode = write ? iwarp::Opcode::kWrite : iwarp::send_opcode(solicited, false);
  const std::uint32_t stag = request.length != 0 ? request.stag : kNoStag;
  if (!shared_.link->send_short({opcode, stag, request.to, payload})) return false;
  request.end = shared_.link->built();
  ++built_;
  return true;
}

// Nothing of ours may be on its way: it would be overtaken.
bool SendQueue::reach(Outgoing& out) noexcept {
  Request& request = requests_.at(built_);
  const bool write = request.kind == RequestKind::kWrite;
  if ((!write && request.kind != RequestKind::kRead) || request.length == 0 ||
      reads_in_flight_ != 0 || (!write && ord_ == 0) || !shared_.link->all_sent())
    return false;
  out.pins.clear();
  const Segment* const segments = requests_.segments(built_);
  for (std::uint32_t i = 0; i < request.segment_count; ++i) {
    if (!out.pins.add(shared_.memory, segments[i].ref)) return false;  // begin() says why
    out.spans[i] = {segments[i].address, segments[i].length};
  }
  if (!shared_.link->reach({write, request.stag, request.to, request.length},
                           {out.spans.data(), request.segment_count}))
    return false;
  out.pins.clear();
  request.done = true;
  request.end = shared_.link->built();
  ++built_;
  sent(request.end);
  return true;
}

}  // namespace udapl::soft
