// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/mpa_frame.h"

#include <algorithm>
#include <cstring>

#include "providers/soft/iwarp/wire.h"

namespace udapl::iwarp {
namespace {

constexpr std::size_t kKeySize = 16;
constexpr char kRequestKey[] = "MPA ID Req Frame";
constexpr char kReplyKey[] = "MPA ID Rep Frame";
static_assert(sizeof kRequestKey == kKeySize + 1 && sizeof kReplyKey == kKeySize + 1);

constexpr std::size_t kFlagsAt = 16;
constexpr std::size_t kRevisionAt = 17;
constexpr std::size_t kLengthAt = 18;

constexpr std::uint8_t kMarkers = 0x80;
constexpr std::uint8_t kCrc = 0x40;
constexpr std::uint8_t kReject = 0x20;
constexpr std::uint8_t kEnhanced = 0x10;
constexpr std::uint8_t kRings = 0x01;

// Top bits of the two enhanced words; the rest is the depth.
constexpr unsigned kPeerToPeer = 0x8000;  // A, first word
constexpr unsigned kSendRtr = 0x4000;     // B, first word
constexpr unsigned kWriteRtr = 0x8000;    // C, second word
constexpr unsigned kReadRtr = 0x4000;     // D, second word
constexpr unsigned kDepthMask = 0x3FFF;

const char* key(MpaKind kind) noexcept {
  return kind == MpaKind::kRequest ? kRequestKey : kReplyKey;
}

void decode_enhanced(const std::byte* in, MpaFrame& frame) noexcept {
  const unsigned first = load16(in);
  const unsigned second = load16(in + 2);
  frame.peer_to_peer = (first & kPeerToPeer) != 0;
  frame.rtr = static_cast<std::uint8_t>((first & kSendRtr ? kRtrSend : kRtrNone) |
                                        (second & kWriteRtr ? kRtrWrite : kRtrNone) |
                                        (second & kReadRtr ? kRtrRead : kRtrNone));
  frame.ird = static_cast<std::uint16_t>(first & kDepthMask);
  frame.ord = static_cast<std::uint16_t>(second & kDepthMask);
}

// Checks the first bytes of a key.
MpaError check_key(std::span<const std::byte> in, MpaKind expected) noexcept {
  const std::size_t n = std::min(in.size(), kKeySize);
  if (n == 0 || std::memcmp(in.data(), key(expected), n) == 0) return MpaError::kNone;
  const MpaKind other = expected == MpaKind::kRequest ? MpaKind::kReply : MpaKind::kRequest;
  if (std::memcmp(in.data(), key(other), n) == 0) return MpaError::kWrongKind;
  return MpaError::kBadKey;
}

}  // namespace

std::size_t encode(const MpaFrame& in, std::span<std::byte, kMpaMaxFrameSize> out) noexcept {
  const std::size_t data_size = in.private_data.size();
  if (data_size > max_private_data(in.enhanced)) return 0;
  std::memcpy(out.data(), key(in.kind), kKeySize);
  std::byte* p = out.data() + kFlagsAt;
  p = store8(p, static_cast<std::uint8_t>((in.markers ? kMarkers : 0) | (in.crc ? kCrc : 0) |
                                          (in.reject ? kReject : 0) |
                                          (in.enhanced ? kEnhanced : 0) | (in.rings ? kRings : 0)));
  p = store8(p, in.revision);
  p = store16(p, static_cast<std::uint16_t>(data_size + (in.enhanced ? kMpaEnhancedSize : 0)));
  if (in.enhanced) {
    p = store16(
        p, static_cast<std::uint16_t>((in.peer_to_peer ? kPeerToPeer : 0) |
                                      (in.rtr & kRtrSend ? kSendRtr : 0) | (in.ird & kDepthMask)));
    p = store16(
        p, static_cast<std::uint16_t>((in.rtr & kRtrWrite ? kWriteRtr : 0) |
                                      (in.rtr & kRtrRead ? kReadRtr : 0) | (in.ord & kDepthMask)));
  }
  p = std::copy(in.private_data.begin(), in.private_data.end(), p);
  return static_cast<std::size_t>(p - out.data());
}

MpaDecode decode_mpa(std::span<const std::byte> in, MpaKind expected) noexcept {
  MpaDecode result;
  const auto fail = [&result](MpaError error) {
    result.error = error;
    return result;
  };

  if (const MpaError e = check_key(in, expected); e != MpaError::kNone) return fail(e);
  if (in.size() <= kRevisionAt) return result;
  const std::uint8_t revision = load8(&in[kRevisionAt]);
  if (revision != 1 && revision != 2) return fail(MpaError::kBadRevision);
  if (in.size() < kMpaFixedSize) return result;

  const std::uint8_t flags = load8(&in[kFlagsAt]);
  const std::size_t pd_length = load16(&in[kLengthAt]);
  if (pd_length > kMpaMaxPrivateData) return fail(MpaError::kTooLong);
  MpaFrame frame;
  frame.kind = expected;
  frame.markers = (flags & kMarkers) != 0;
  frame.crc = (flags & kCrc) != 0;
  frame.reject = expected == MpaKind::kReply && (flags & kReject) != 0;
  frame.enhanced = (flags & kEnhanced) != 0;
  frame.rings = frame.enhanced && (flags & kRings) != 0;
  frame.revision = revision;
  const bool words_missing = frame.reject && pd_length == 0;
  if (frame.enhanced && (revision < 2 || (pd_length < kMpaEnhancedSize && !words_missing))) {
    return fail(MpaError::kBadEnhanced);
  }

  result.size = kMpaFixedSize + pd_length;
  if (in.size() < result.size) return result;
  if (in.size() > result.size) return fail(MpaError::kExtraBytes);
  std::span<const std::byte> data = in.subspan(kMpaFixedSize);
  if (frame.enhanced && !words_missing) {
    decode_enhanced(data.data(), frame);
    data = data.subspan(kMpaEnhancedSize);
  }
  frame.private_data = data;
  result.frame = frame;
  return fail(MpaError::kNone);
}

const char* name(MpaError error) noexcept {
  switch (error) {
    case MpaError::kNone:
      return "no error";
    case MpaError::kIncomplete:
      return "incomplete";
    case MpaError::kBadKey:
      return "bad key";
    case MpaError::kWrongKind:
      return "both sides are initiators or both responders";
    case MpaError::kBadRevision:
      return "unsupported revision";
    case MpaError::kTooLong:
      return "private data too long";
    case MpaError::kBadEnhanced:
      return "bad enhanced connection data";
    case MpaError::kExtraBytes:
      return "bytes behind the frame";
  }
  return "unknown error";
}

}  // namespace udapl::iwarp
