// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Private to receiver*.cpp.

#include "providers/soft/iwarp/receiver.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace udapl::iwarp {

// The longest DDP header plus the longest RDMAP header of messages that carry no payload.
inline constexpr std::size_t kMaxFront =
    kUntaggedHeaderSize + std::max(kAtomicRequestSize, kTerminateMaxSize);

// After this many segments in a row that are not large, expects_large() returns false.
inline constexpr std::uint8_t kLargeAhead = 32;

// The part of an opened segment that is placed in the current call.
class Receiver::Part final : public Payload {
 public:
  Part(Payload& payload, std::size_t most) noexcept : payload_(payload), most_(most) {}
  std::size_t put(std::span<std::byte> room) noexcept override {
    asked_ = true;
    if (room.size() < std::min(most_, kMinPiece)) {
      scattered_ = true;
      return 0;
    }
    return bytes_ = payload_.put(room.first(std::min(room.size(), most_)));
  }
  bool asked() const noexcept { return asked_; }
  bool scattered() const noexcept { return scattered_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Payload& payload_;
  std::size_t most_;
  std::size_t bytes_ = 0;
  bool asked_ = false;
  bool scattered_ = false;
};

struct Receiver::Segment {
  const std::byte* front;    // our copy of the first kMaxFront bytes, or of the whole ULPDU
  const std::byte* payload;  // as received
  std::uint16_t length;      // of the ULPDU
  Opcode opcode;
  bool last;
  Part* part = nullptr;  // if set: only this part of the payload is placed in this call

  static Segment of(const std::byte* front, const std::byte* ulpdu, std::uint16_t length) noexcept {
    Segment s{front, ulpdu, length, static_cast<Opcode>(load8(front + 1) & kRdmapOpcodeMask),
              (load8(front) & kDdpLast) != 0};
    s.payload += s.header_size();
    return s;
  }
  std::size_t header_size() const noexcept {
    return (load8(front) & kDdpTagged) != 0 ? kTaggedHeaderSize : kUntaggedHeaderSize;
  }
  // Whether this segment completes the message.
  bool ends() const noexcept { return last && part == nullptr; }
  // The number of payload bytes by which it advances the message.
  std::uint32_t bytes() const noexcept {
    return static_cast<std::uint32_t>(part != nullptr ? part->bytes() : length - header_size());
  }
  std::uint32_t stag() const noexcept { return load32(front + 2); }
  std::uint64_t to() const noexcept { return load64(front + 6); }
  std::uint32_t queue() const noexcept { return load32(front + 6); }
  std::uint32_t msn() const noexcept { return load32(front + 10); }
  std::uint32_t mo() const noexcept { return load32(front + 14); }
  // The bytes behind the untagged header, for messages other than Sends.
  const std::byte* body() const noexcept { return front + kUntaggedHeaderSize; }
  std::span<const std::byte> terminate() const noexcept {
    return {body(), std::min<std::size_t>(length, kMaxFront) - kUntaggedHeaderSize};
  }
  std::span<const std::byte> tagged_payload() const noexcept {
    return {payload, length - kTaggedHeaderSize};
  }
  std::span<const std::byte> untagged_payload() const noexcept {
    return {payload, length - kUntaggedHeaderSize};
  }
};

}  // namespace udapl::iwarp
