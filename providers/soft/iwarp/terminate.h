// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The Terminate message: error codes and their names, encoding and decoding.
// A plain value; safe from any thread. Spec: RFC 5040 §4.8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "providers/soft/iwarp/rdmap.h"
#include "providers/soft/iwarp/wire.h"

namespace udapl::iwarp {

// layer << 12 | type << 8 | code: the whole registry of RFC 5040, 5041, 5044 and 6581.
enum class TerminateCode : std::uint16_t {
  kRdmapLocalCatastrophic = 0x0000,
  kRdmapInvalidStag = 0x0100,
  kRdmapBaseBounds = 0x0101,
  kRdmapAccess = 0x0102,
  kRdmapNotThisStream = 0x0103,
  kRdmapToWrap = 0x0104,
  kRdmapCannotInvalidateProtection = 0x0109,
  kRdmapProtectionUnspecified = 0x01FF,
  kRdmapVersion = 0x0205,
  kRdmapUnexpectedOpcode = 0x0206,
  kRdmapCatastrophicStream = 0x0207,
  kRdmapCatastrophicGlobal = 0x0208,
  kRdmapCannotInvalidate = 0x0209,
  kRdmapOperationUnspecified = 0x02FF,
  kDdpLocalCatastrophic = 0x1000,
  kDdpTaggedInvalidStag = 0x1100,
  kDdpTaggedBaseBounds = 0x1101,
  kDdpTaggedNotThisStream = 0x1102,
  kDdpTaggedToWrap = 0x1103,
  kDdpTaggedVersion = 0x1104,
  kDdpUntaggedInvalidQueue = 0x1201,
  kDdpUntaggedNoBuffer = 0x1202,
  kDdpUntaggedMsnRange = 0x1203,
  kDdpUntaggedInvalidMo = 0x1204,
  kDdpUntaggedTooLong = 0x1205,
  kDdpUntaggedVersion = 0x1206,
  kMpaTcpLost = 0x2001,
  kMpaCrc = 0x2002,
  kMpaMarkerOrLength = 0x2003,
  kMpaBadStartup = 0x2004,
  kMpaLocalCatastrophic = 0x2005,
  kMpaInsufficientIrd = 0x2006,
  kMpaNoMatchingRtr = 0x2007,
};

// Whether the code reports a memory access without the right to it.
constexpr bool is_protection(TerminateCode code) noexcept {
  const unsigned kind = static_cast<unsigned>(code) >> 8;
  return kind == 0x01 || (kind == 0x11 && code != TerminateCode::kDdpTaggedVersion) ||
         code == TerminateCode::kRdmapCannotInvalidate;
}

constexpr TerminateCode terminate_code(unsigned layer, unsigned type, unsigned code) noexcept {
  return static_cast<TerminateCode>((layer & 0xF) << 12 | (type & 0xF) << 8 | (code & 0xFF));
}

struct Terminate {
  TerminateCode code = TerminateCode::kRdmapLocalCatastrophic;
  bool has_ddp_header = false;       // bit D, and bit M for the length
  bool has_read_header = false;      // bit R
  std::uint16_t segment_length = 0;  // ULPDU_Length of the failing segment, with has_ddp_header
  std::uint8_t ddp_header_size = 0;  // 14 or 18
  std::array<std::byte, kUntaggedHeaderSize> ddp_header{};
  std::array<std::byte, kReadRequestSize> read_header{};
  bool wrong_layout = false;  // decode only: the sender used kernel siw's bit order

  unsigned layer() const noexcept { return static_cast<unsigned>(code) >> 12; }
  unsigned type() const noexcept { return static_cast<unsigned>(code) >> 8 & 0xF; }
  unsigned error() const noexcept { return static_cast<unsigned>(code) & 0xFF; }

  friend bool operator==(const Terminate&, const Terminate&) = default;
};

// Makes a message without copies of headers: for version errors, LLP errors, local catastrophic
// errors.
Terminate make_terminate(TerminateCode code) noexcept;

// Makes a message with a copy of the failing DDP header. `ulpdu` points at the DDP control byte and
// must hold `ulpdu_length` bytes, at least the DDP header. `with_read_header`: also copies the 28
// bytes behind an untagged header. Spec: RFC 5040 §4.8, figure 10.
Terminate make_terminate(TerminateCode code, const std::byte* ulpdu, std::uint16_t ulpdu_length,
                         bool with_read_header) noexcept;

// Makes a message for a Read Request that failed after it was accepted, because its source was
// revoked while the Response was being sent. `msn`: of the request. `done`: the number of bytes
// that were already answered; the copied header is advanced by them, as the RFC requires.
Terminate make_read_terminate(TerminateCode code, const ReadRequest& request, std::uint32_t msn,
                              std::uint32_t done) noexcept;

// Writes the RDMAP part (what follows the untagged DDP header); returns its size, 4 to 52 bytes.
std::size_t encode(const Terminate& in, std::span<std::byte, kTerminateMaxSize> out) noexcept;

// Decodes the RDMAP part leniently: accepts any length from 4 bytes up, clears header bits whose
// header is missing, and recognises kernel siw's swapped layout. `startup`: this is the first FPDU
// of the connection, so a bare 2/0/05 or 2/0/06 is about the MPA start-up; later it is what siw
// sends for an RDMAP version or opcode error. For reporting only. REQUIRES: in.size() >= 4.
Terminate decode_terminate(std::span<const std::byte> in, bool startup) noexcept;

// Returns a text such as "DDP untagged: no receive posted"; for unregistered codes "DDP: unknown
// code".
const char* name(TerminateCode code) noexcept;

}  // namespace udapl::iwarp
