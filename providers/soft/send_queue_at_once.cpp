// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// SendQueue: requests that are done at once, without a message or with a short one.
#include "providers/soft/cq.h"
#include "providers/soft/send_queue.h"

#include <algorithm>
#include <array>

namespace udapl::soft {

// A request whose completion waits for nothing takes no place in the queue. Returns false if a Read
// that asks for placement has to follow, because both should be sent together.
bool SendQueue::post_at_once(RequestKind kind, transport::WorkId id, const DAT_LMR_TRIPLET& segment,
                             const DAT_RMR_TRIPLET& remote, transport::WorkFlags flags) noexcept {
  if (posts_ != Posts::kQueued || sent_ != requests_.tail() || requests_.full() ||
      ((flags & transport::kFence) != 0 && reads_in_flight_ != 0) ||
      (asks_for_placement_ && is_seen(flags) &&
       (is_unasked(waiting_end_) || waits_for_placement(kind))))
    return false;
  Link& link = *shared_.link;
  const bool write = kind == RequestKind::kWrite;
  const std::uint32_t length = segment.segment_length;
  if (length == 0 || length > link.most_short(write)) return false;
  const std::byte* const from = sources_.resolve(segment, shared_.pd, kLocalRead);
  if (from == nullptr) return false;
  const bool solicited = (flags & transport::kSolicited) != 0;
  if (!link.send_at_once({write ? iwarp::Opcode::kWrite : iwarp::send_opcode(solicited, false),
                          remote.rmr_context,
                          remote.virtual_address,
                          {from, length}}))
    return false;
  if (requests_.empty() && !some_unplaced() && !waits_for_placement(kind) && link.all_sent())
      [[likely]] {
    report_success(kind, id, flags, length);
    return true;
  }
  Request& request = requests_.next();
  request.id = id;
  request.flags = flags;
  request.kind = kind;
  request.invalidate = request.write_sent = request.done = request.copied = false;
  request.segment_count = 0;
  request.length = length;
  request.status = DAT_DTO_SUCCESS;
  request.end = link.built();
  requests_.push();
  count_built(request);
  sent(link.sent());
  return true;
}

// Returns false also if the memory is no longer registered: begin() then reports the error.
bool SendQueue::send_short(PinSet& pins) noexcept {
  Request& request = requests_.at(built_);
  const bool write = request.kind == RequestKind::kWrite;
  if ((!write && request.kind != RequestKind::kSend) || request.invalidate) return false;
  if (request.length > shared_.link->most_short(write) &&
      (!write || request.length > shared_.link->most_short(false) || !prefers_message(request)))
    return false;
  const bool solicited = (request.flags & transport::kSolicited) != 0;
  Link::Short message{write ? iwarp::Opcode::kWrite : iwarp::send_opcode(solicited, false),
                      request.length != 0 ? request.stag : kNoStag,
                      request.to,
                      {}};
  const Segment* const segments = requests_.segments(built_);
  if (request.copied) {
    message.payload = {request.copy, request.length};
    if (!shared_.link->send_short(message)) return false;
  } else if (request.segment_count == 1) [[likely]] {
    message.payload = {segments[0].address, segments[0].length};
    if (!pin_for_copy(pins, segments[0]) || !shared_.link->send_short(message)) return false;
  } else {
    std::array<std::byte, kMaxGathered> gathered;
    if (!gather({segments, request.segment_count}, pins, gathered, message.payload) ||
        !shared_.link->send_short(message))
      return false;
  }
  request.end = shared_.link->built();
  count_built(request);
  return true;
}

// Pins the memory of a segment whose bytes are copied at once. If the set is full, its pins can be
// cleared, because their bytes have been copied. Pins are kept in the set from one message to the
// next, because consecutive messages usually use the same registration: the locked instructions to
// acquire and release a pin for each message would wait for the stores to the ring.
bool SendQueue::pin_for_copy(PinSet& pins, const Segment& segment) noexcept {
  if (sources_.holds(shared_.memory, segment.ref)) return true;
  if (!pins.has_room(1)) pins.clear();
  return pins.add(shared_.memory, segment.ref);
}

// Copies the segments into one piece. Returns false if they do not fit, or if the memory of one is
// no longer registered.
bool SendQueue::gather(std::span<const Segment> segments, PinSet& pins, std::span<std::byte> room,
                       std::span<const std::byte>& gathered) noexcept {
  std::size_t size = 0;
  for (const Segment& segment : segments) {
    if (!pin_for_copy(pins, segment) || segment.length > room.size() - size) return false;
    std::copy_n(segment.address, segment.length, room.data() + size);
    size += segment.length;
  }
  gathered = room.first(size);
  return true;
}

// REQUIRES: `request` is the first that has not been built. Completions that the consumer has not
// taken from its CQ count as requests in flight, too: together they tell how many requests the
// consumer usually posts at a time.
bool SendQueue::prefers_message(const Request& request) noexcept {
  DirectAccess* const direct = shared_.link->direct_access();
  if (direct == nullptr) return false;
  const bool write = request.kind == RequestKind::kWrite;
  std::uint64_t others = requests_.size() - 1 + (cq_ != nullptr ? cq_->untaken() : 0);
  if (!write) others = std::min<std::uint64_t>(others, ord_ - 1);
  return direct->prefers_message(write, request.length, others);
}

// REQUIRES: the link has direct access. Returns false while a message of ours is in flight, because
// the access would overtake it.
bool SendQueue::reach(Outgoing& out) noexcept {
  Request& request = requests_.at(built_);
  const bool write = request.kind == RequestKind::kWrite;
  if ((!write && request.kind != RequestKind::kRead) || request.length == 0 ||
      (!write && ord_ == 0) || prefers_message(request) || reads_in_flight_ != 0 ||
      !shared_.link->all_sent())
    return false;
  out.pins.clear();
  std::size_t spans = request.segment_count;
  if (request.copied) {
    out.spans[0] = {request.copy, request.length};
    spans = 1;
  } else {
    const Segment* const segments = requests_.segments(built_);
    for (std::uint32_t i = 0; i < request.segment_count; ++i) {
      if (!out.pins.add(shared_.memory, segments[i].ref)) return false;  // begin() reports it
      out.spans[i] = {segments[i].address, segments[i].length};
    }
  }
  if (!shared_.link->direct_access()->reach({write, request.stag, request.to, request.length},
                                            {out.spans.data(), spans}))
    return false;
  out.pins.clear();
  request.done = true;
  request.end = shared_.link->built();
  ++built_;
  sent(request.end);
  return true;
}

}  // namespace udapl::soft
