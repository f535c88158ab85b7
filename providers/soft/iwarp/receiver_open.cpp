// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Receiver: large segments that are opened before they are complete, so that their payload can be
// received directly into its destination.
#include <algorithm>
#include <cstring>

#include "common/tracing/trace.h"
#include "providers/soft/iwarp/receiver_segment.h"

namespace udapl::iwarp {
namespace {

class StagedPayload final : public Payload {
 public:
  StagedPayload(const std::byte* bytes, std::size_t size) noexcept : bytes_(bytes), size_(size) {}
  std::size_t put(std::span<std::byte> room) noexcept override {
    const std::size_t n = std::min(room.size(), size_);
    if (n != 0) std::memcpy(room.data(), bytes_, n);
    return n;
  }

 private:
  const std::byte* bytes_;
  std::size_t size_;
};

}  // namespace

// Opens a segment whose header is staged while most of its payload is missing. Returns true if it
// did: the payload that is staged behind the header then counts as missing, too. If it returns
// false, the stream may have failed.
bool Receiver::open(const std::byte* front, std::size_t available, std::uint16_t length,
                    Inbound& inbound) noexcept {
  const auto opcode = static_cast<Opcode>(load8(front + 1) & kRdmapOpcodeMask);
  const bool is_tagged_segment = (load8(front) & kDdpTagged) != 0;
  const std::size_t header = is_tagged_segment ? kTaggedHeaderSize : kUntaggedHeaderSize;
  const bool has_payload = opcode == Opcode::kWrite || opcode == Opcode::kReadResponse ||
                           (static_cast<unsigned>(opcode) < kOpcodeCount && is_send(opcode));
  if (available < header || !held_.empty() || !has_payload ||
      is_tagged(opcode) != is_tagged_segment)
    return false;
  std::memcpy(header_, front, header);
  trailer_ = static_cast<std::uint8_t>(pad_size(length) + kCrcSize);
  open_ = static_cast<std::uint16_t>(length - header);
  scattered_ = false;
  StagedPayload nothing(nullptr, 0);
  if (!put(inbound, nothing)) {
    open_ = 0;
    return false;
  }
  if (udapl::trace::enabled(udapl::trace::kDetail)) [[unlikely]]
    trace(Segment::of(header_, header_, length));
  return true;
}

// Lets `payload` read some of the missing bytes into place. Returns false if `payload` was not
// called.
bool Receiver::put(Inbound& inbound, Payload& payload) noexcept {
  Part part(payload, open_ - kClosingBytes);
  Segment s = Segment::of(header_, header_, 0);
  s.length = static_cast<std::uint16_t>(s.header_size() + open_);
  s.part = &part;
  process(s, inbound);
  if (state_ != State::kOpen || !part.asked()) return false;
  scattered_ = part.scattered();
  open_ = static_cast<std::uint16_t>(open_ - part.bytes());
  if (is_tagged(s.opcode))
    store64(header_ + 6, s.to() + part.bytes());
  else
    store32(header_ + 14, s.mo() + s.bytes());
  return true;
}

// After an Inbound has provided memory for a segment, it does not return kWait for the rest of the
// segment. If no byte could be placed nevertheless, the rest is staged.
void Receiver::fill(Inbound& inbound, Payload& payload) noexcept {
  const std::uint16_t before = open_;
  if (!put(inbound, payload)) scattered_ = true;
  consumed_ += before - open_;
}

// Consumes staged bytes of the opened segment and returns their number. If open_ is 0 afterwards,
// the segment is complete.
std::size_t Receiver::close(std::span<const std::byte> staged, Inbound& inbound,
                            std::size_t& work) noexcept {
  std::size_t used = 0;
  while (staged.size() - used < std::size_t{open_} + trailer_) {
    const std::size_t before = open_;
    if (open_bytes() != 0 && used != staged.size()) {
      StagedPayload rest(staged.data() + used, staged.size() - used);
      fill(inbound, rest);
      if (state_ != State::kOpen) return used;
      used += before - open_;
    }
    if (open_ == before) {
      needed_ = std::size_t{open_} + trailer_;
      work -= std::min(work, used);
      return used;
    }
  }
  Segment s = Segment::of(header_, header_, 0);
  s.length = static_cast<std::uint16_t>(s.header_size() + open_);
  s.payload = staged.data() + used;
  process(s, inbound);
  if (state_ == State::kFailed) return used;
  used += std::size_t{open_} + trailer_;
  consumed_ += std::size_t{open_} + trailer_;
  open_ = 0;
  ++fpdus_;
  large_ = kLargeAhead;
  work -= std::min(work, used + kFpduWork);
  return used;
}

}  // namespace udapl::iwarp
