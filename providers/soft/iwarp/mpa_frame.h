// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The MPA Request and Reply frames that open a connection: bytes <-> values.
// Stateless; safe from any thread. Spec: RFC 5044 §7.1.1, RFC 6581 §9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace udapl::iwarp {

inline constexpr std::size_t kMpaFixedSize = 20;        // key, flags, revision, PD_Length
inline constexpr std::size_t kMpaEnhancedSize = 4;      // IRD and ORD words
inline constexpr std::size_t kMpaMaxPrivateData = 512;  // PD_Length limit, enhanced words included
inline constexpr std::size_t kMpaMaxFrameSize = kMpaFixedSize + kMpaMaxPrivateData;

inline constexpr std::uint16_t kDepthMax = 0x3FFE;
inline constexpr std::uint16_t kDepthNotNegotiated = 0x3FFF;

enum class MpaKind : std::uint8_t { kRequest, kReply };

// Ready-to-receive messages, a set. Bits B, C and D of RFC 6581.
enum RtrSet : std::uint8_t {
  kRtrNone = 0,
  kRtrSend = 1,
  kRtrWrite = 2,
  kRtrRead = 4,
};

struct MpaFrame {
  MpaKind kind = MpaKind::kRequest;
  bool markers = false;  // M: the sender of this frame wants markers in what it receives
  bool crc = true;       // C
  bool reject = false;   // R, Reply only
  bool enhanced = true;  // S: the fields from peer_to_peer to ord are on the wire
  std::uint8_t revision = 2;
  bool peer_to_peer = false;    // A
  std::uint8_t rtr = kRtrNone;  // set of RtrSet
  std::uint16_t ird = 0;        // 0..0x3FFF, RDMA Reads the sender of this frame can serve
  std::uint16_t ord = 0;        // 0..0x3FFF, RDMA Reads it wants to have outstanding
  // A reserved bit, which other implementations ignore; set if both ends run this provider on one
  // host (shm/offer.h). Request: the private data ends with the token of an offer. Reply: the FPDU
  // stream uses the rings of that offer.
  bool rings = false;
  std::span<const std::byte> private_data;  // the consumer's part
};

// The maximum number of consumer bytes in a frame.
constexpr std::size_t max_private_data(bool enhanced) noexcept {
  return kMpaMaxPrivateData - (enhanced ? kMpaEnhancedSize : 0);
}

// Writes the frame; returns its size, or 0 if the private data is too long for a frame.
std::size_t encode(const MpaFrame& in, std::span<std::byte, kMpaMaxFrameSize> out) noexcept;

enum class MpaError : std::uint8_t {
  kNone,
  kIncomplete,  // good so far; MpaDecode::size bytes are needed
  kBadKey,
  kWrongKind,    // the other kind of frame, e.g. both sides connect (RFC 5044 §7.1.2)
  kBadRevision,  // neither 1 nor 2
  kTooLong,      // PD_Length > 512
  kBadEnhanced,  // S with revision 1, or PD_Length < 4
  kExtraBytes,   // bytes follow the frame
};

struct MpaDecode {
  MpaError error = MpaError::kIncomplete;
  std::size_t size = kMpaFixedSize;  // of the whole frame, as far as known; never read beyond it
  MpaFrame frame;                    // valid with kNone; private_data points into the input
};

// Decodes the part of a frame that has arrived; on kIncomplete, call it again with more bytes. Each
// check of RFC 5044 §7.1.3 is made, in that order, as soon as its bytes have arrived, so a wrong
// key is rejected at its first wrong byte. After any error but kIncomplete, close without an
// answer. Quirk: a rejecting Reply with S and PD_Length 0 (kernel siw) decodes as enhanced with
// zero depths.
MpaDecode decode_mpa(std::span<const std::byte> in, MpaKind expected) noexcept;

// Returns a text such as "bad key".
const char* name(MpaError error) noexcept;

}  // namespace udapl::iwarp
