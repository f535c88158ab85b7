// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Receiver: delivery of a segment that has passed the checks, at once or when there is a receive
// for its message.
#include <algorithm>
#include <cassert>

#include "common/tracing/trace.h"
#include "providers/soft/iwarp/receiver_segment.h"

namespace udapl::iwarp {

bool Receiver::deliver_in_order(const Segment& s, bool first, Inbound& inbound) noexcept {
  if (held_.empty()) [[likely]] {
    const Delivery delivery = deliver(s, first, inbound);
    if (delivery != Delivery::kWaits) [[likely]]
      return delivery == Delivery::kDone;
  }
  if (s.part != nullptr) return false;  // it is staged, and delivered once complete
  return hold(s, first);
}

bool Receiver::hold(const Segment& s, bool first) noexcept {
  const std::size_t front = std::min<std::size_t>(s.length, kMaxFront);
  if (held_.push({s.front, front}, {s.payload + (front - s.header_size()), s.length - front}, first,
                 consumed_))
    return true;
  UDAPL_TRACE(kError, "EP %p: no memory to hold a message back", owner_);
  return accept(s, Verdict::kCatastrophic);
}

bool Receiver::release(Inbound& inbound) noexcept {
  bool moved = false;
  while (state_ == State::kOpen && !held_.empty()) {
    const HeldSegments::Held held = held_.front();
    const Segment s = Segment::of(held.ulpdu, held.ulpdu, held.length);
    if (deliver(s, held.first, inbound) == Delivery::kWaits) break;
    if (state_ != State::kOpen)
      discard_held();
    else
      held_.pop();
    moved = true;
  }
  return moved;
}

void Receiver::refuse_held() noexcept {
  const HeldSegments::Held held = held_.front();
  accept(Segment::of(held.ulpdu, held.ulpdu, held.length), Verdict::kNoBuffer);
  discard_held();
}

Receiver::Delivery Receiver::delivered(const Segment& s, Verdict verdict) noexcept {
  if (verdict == Verdict::kWait) return Delivery::kWaits;
  return accept(s, verdict) ? Delivery::kDone : Delivery::kFailed;
}

// Delivers the segment to the Inbound. Its order in the stream was checked when it arrived.
Receiver::Delivery Receiver::deliver(const Segment& s, bool first, Inbound& inbound) noexcept {
  switch (s.opcode) {
    case Opcode::kWrite:
      if (s.part != nullptr) {
        const auto length = static_cast<std::uint32_t>(s.tagged_payload().size());
        return delivered(s, inbound.fill_write(s.stag(), s.to(), length, *s.part));
      }
      return delivered(s, inbound.place_write(s.stag(), s.to(), s.tagged_payload()));
    case Opcode::kReadRequest:
      return delivered(s, inbound.read_request(decode_read_request(s.body()), s.msn()));
    case Opcode::kImmediate:
    case Opcode::kImmediateSolicited: {
      ImmediateBytes data;
      std::copy_n(s.body(), data.size(), data.data());
      return delivered(s, inbound.immediate(data, is_solicited(s.opcode)));
    }
    case Opcode::kAtomicRequest: {
      const AtomicRequest request = decode_atomic_request(s.body());
      const bool well_formed = known_atomic(request.op) && request.to % 8 == 0;
      return delivered(s, well_formed ? inbound.atomic_request(request) : Verdict::kMisaligned);
    }
    default:
      assert(is_send(s.opcode));
      return deliver_send(s, first, inbound);
  }
}

Receiver::Delivery Receiver::deliver_send(const Segment& s, bool first, Inbound& inbound) noexcept {
  const auto payload = s.untagged_payload();
  if (s.part != nullptr) {
    const SendSegment segment{s.opcode, first, false, s.msn(), s.mo(), {}};
    const auto length = static_cast<std::uint32_t>(payload.size());
    return delivered(s, inbound.fill_send(segment, length, *s.part));
  }
  const SendSegment segment{s.opcode, first, s.last, s.msn(), s.mo(), payload};
  const Delivery placed = delivered(s, inbound.place_send(segment));
  if (placed != Delivery::kDone || !s.last) return placed;

  const bool invalidate = invalidates(s.opcode);
  if (invalidate && !accept(s, inbound.invalidate(s.stag()))) return Delivery::kFailed;
  inbound.send_done({s.opcode, is_solicited(s.opcode), invalidate, invalidate ? s.stag() : 0,
                     s.mo() + static_cast<std::uint32_t>(payload.size())});
  return Delivery::kDone;
}

}  // namespace udapl::iwarp
