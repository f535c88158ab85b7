// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Byte-level definitions of iWARP: big-endian loads and stores, opcodes, constants.
// Stateless; safe from any thread. Spec: RFC 5040 (RDMAP), 5041 (DDP), 5044 (MPA), 7306.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace udapl::iwarp {

static_assert(std::endian::native == std::endian::little ||
              std::endian::native == std::endian::big);

inline constexpr std::uint16_t swap16(std::uint16_t v) noexcept {
  if constexpr (std::endian::native == std::endian::big) return v;
  return __builtin_bswap16(v);
}
inline constexpr std::uint32_t swap32(std::uint32_t v) noexcept {
  if constexpr (std::endian::native == std::endian::big) return v;
  return __builtin_bswap32(v);
}
inline constexpr std::uint64_t swap64(std::uint64_t v) noexcept {
  if constexpr (std::endian::native == std::endian::big) return v;
  return __builtin_bswap64(v);
}

inline std::uint8_t load8(const std::byte* p) noexcept { return std::to_integer<std::uint8_t>(*p); }
inline std::uint16_t load16(const std::byte* p) noexcept {
  std::uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return swap16(v);
}
inline std::uint32_t load32(const std::byte* p) noexcept {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return swap32(v);
}
inline std::uint64_t load64(const std::byte* p) noexcept {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return swap64(v);
}
// Each store returns the address behind the stored value, so that a header reads as a list of
// fields.
inline std::byte* store8(std::byte* p, std::uint8_t v) noexcept {
  *p = std::byte{v};
  return p + 1;
}
inline std::byte* store16(std::byte* p, std::uint16_t v) noexcept {
  v = swap16(v);
  std::memcpy(p, &v, sizeof v);
  return p + sizeof v;
}
inline std::byte* store32(std::byte* p, std::uint32_t v) noexcept {
  v = swap32(v);
  std::memcpy(p, &v, sizeof v);
  return p + sizeof v;
}
inline std::byte* store64(std::byte* p, std::uint64_t v) noexcept {
  v = swap64(v);
  std::memcpy(p, &v, sizeof v);
  return p + sizeof v;
}

// The only field of the protocol that is least significant byte first (RFC 5044 §4.4).
inline std::uint32_t load_crc(const std::byte* p) noexcept { return __builtin_bswap32(load32(p)); }
inline std::byte* store_crc(std::byte* p, std::uint32_t v) noexcept {
  return store32(p, __builtin_bswap32(v));
}

enum class Opcode : std::uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
  kImmediate = 8,           // RFC 7306
  kImmediateSolicited = 9,  // RFC 7306
  kAtomicRequest = 10,      // RFC 7306
  kAtomicResponse = 11,     // RFC 7306
};
inline constexpr unsigned kOpcodeCount = 12;

// The message's name in the standards. REQUIRES: one of the above.
constexpr const char* name(Opcode opcode) noexcept {
  constexpr const char* kNames[kOpcodeCount] = {
      "RDMA Write",     "RDMA Read Request",      "RDMA Read Response",   "Send",
      "Send with Inv",  "Send with SE",           "Send with SE and Inv", "Terminate",
      "Immediate Data", "Immediate Data with SE", "Atomic Request",       "Atomic Response"};
  return kNames[static_cast<unsigned>(opcode)];
}

enum QueueNumber : std::uint32_t {
  kQueueSend = 0,
  kQueueReadRequest = 1,
  kQueueTerminate = 2,
  kQueueAtomicResponse = 3,
};
inline constexpr unsigned kQueueCount = 4;

constexpr bool is_tagged(Opcode op) noexcept {
  return op == Opcode::kWrite || op == Opcode::kReadResponse;
}
constexpr bool is_send(Opcode op) noexcept {
  return op >= Opcode::kSend && op <= Opcode::kSendSolicitedInvalidate;
}
constexpr bool invalidates(Opcode op) noexcept {
  return op == Opcode::kSendInvalidate || op == Opcode::kSendSolicitedInvalidate;
}
constexpr bool is_solicited(Opcode op) noexcept {
  return op == Opcode::kSendSolicited || op == Opcode::kSendSolicitedInvalidate ||
         op == Opcode::kImmediateSolicited;
}
constexpr Opcode send_opcode(bool solicited, bool invalidate) noexcept {
  if (solicited) return invalidate ? Opcode::kSendSolicitedInvalidate : Opcode::kSendSolicited;
  return invalidate ? Opcode::kSendInvalidate : Opcode::kSend;
}

// Sizes in bytes. "Header" counts from the DDP control byte, as ULPDU_Length does.
inline constexpr std::size_t kFpduLengthSize = 2;
inline constexpr std::size_t kCrcSize = 4;
inline constexpr std::size_t kMarkerSize = 4;
inline constexpr std::size_t kMarkerSpacing = 512;
inline constexpr std::size_t kTaggedHeaderSize = 14;
inline constexpr std::size_t kUntaggedHeaderSize = 18;
inline constexpr std::size_t kReadRequestSize = 28;
inline constexpr std::size_t kAtomicRequestSize = 52;
inline constexpr std::size_t kAtomicResponseSize = 12;
inline constexpr std::size_t kImmediateSize = 8;
inline constexpr std::size_t kTerminateMinSize = 4;
inline constexpr std::size_t kTerminateMaxSize =
    52;  // control, length, untagged header, read header
inline constexpr std::size_t kMaxBodySize = 52;

inline constexpr std::size_t kMinMulpdu = 128;       // RFC 5044 §4: MULPDU never below
inline constexpr std::size_t kMaxSentUlpdu = 64768;  // RFC 5044 §4: what a sender may use
// The longest FPDU that a 16-bit length can announce: length, ULPDU, pad, CRC.
inline constexpr std::size_t kMaxFpduSize = 65544;

// DDP control byte (first) and RDMAP control byte (second).
inline constexpr std::uint8_t kDdpTagged = 0x80;
inline constexpr std::uint8_t kDdpLast = 0x40;
inline constexpr std::uint8_t kDdpVersionMask = 0x03;
inline constexpr std::uint8_t kDdpVersionValue = 1;
inline constexpr std::uint8_t kRdmapVersionShift = 6;
inline constexpr std::uint8_t kRdmapVersionValue = 1;
inline constexpr std::uint8_t kRdmapOpcodeMask = 0x0F;

// Both control bytes, as one word.
constexpr std::uint16_t control_bytes(Opcode opcode, bool last) noexcept {
  return static_cast<std::uint16_t>(
      ((is_tagged(opcode) ? kDdpTagged : 0U) | (last ? kDdpLast : 0U) | kDdpVersionValue) << 8U |
      kRdmapVersionValue << kRdmapVersionShift | static_cast<unsigned>(opcode));
}

// Pad bytes after a ULPDU so that length field + ULPDU + pad is a multiple of 4.
constexpr std::size_t pad_size(std::size_t ulpdu) noexcept {
  return (4 - ((kFpduLengthSize + ulpdu) & 3)) & 3;
}
// Bytes of a whole FPDU on the wire, without markers.
constexpr std::size_t fpdu_size(std::size_t ulpdu) noexcept {
  return kFpduLengthSize + ulpdu + pad_size(ulpdu) + kCrcSize;
}

// Largest ULPDU whose FPDU fits one TCP segment of `emss` payload bytes (RFC 5044 §4.5 / app. A).
constexpr std::size_t mulpdu(std::size_t emss, bool markers) noexcept {
  const std::size_t marker_bytes =
      markers ? kMarkerSize * ((emss + kMarkerSpacing - 1) / kMarkerSpacing) : 0;
  const std::size_t overhead = 6 + marker_bytes + emss % 4;
  if (emss < overhead + kMinMulpdu) return kMinMulpdu;
  return emss - overhead < kMaxSentUlpdu ? emss - overhead : kMaxSentUlpdu;
}

}  // namespace udapl::iwarp
