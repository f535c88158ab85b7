// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/terminate.h"

#include <algorithm>

namespace udapl::iwarp {
namespace {

// Header control bits, third byte of the message.
constexpr std::uint8_t kLengthValid = 0x80;  // M
constexpr std::uint8_t kDdpHeader = 0x40;    // D
constexpr std::uint8_t kReadHeader = 0x20;   // R
constexpr std::uint8_t kControlBits = kLengthValid | kDdpHeader | kReadHeader;

// Kernel siw (little-endian machines) fills its bit fields from the other end of each byte.
constexpr std::uint8_t kSiwDdpHeader = 0x02;
constexpr std::uint8_t kSiwReadHeader = 0x04;
constexpr std::uint8_t kSiwControlBits = 0x07;

struct Control {
  TerminateCode code;
  bool ddp_header;
  bool read_header;
  bool wrong_layout;
};

constexpr std::uint8_t swap_halves(std::uint8_t v) noexcept {
  return static_cast<std::uint8_t>(v << 4 | v >> 4);
}

constexpr TerminateCode code_of(std::uint8_t kind, std::uint8_t error) noexcept {
  return terminate_code(kind >> 4, kind & 0xF, error);
}

Control decode_control(std::uint8_t kind, std::uint8_t error, std::uint8_t bits,
                       bool startup) noexcept {
  if ((bits & kControlBits) == 0 && (bits & kSiwControlBits) != 0) {
    return {code_of(swap_halves(kind), error), (bits & kSiwDdpHeader) != 0,
            (bits & kSiwReadHeader) != 0, true};
  }
  if ((bits & kControlBits) == 0) {
    const bool siw = (kind == 0x02 && error == 0x02) || (kind == 0x21 && error == 0x06) ||
                     (!startup && kind == 0x20 && (error == 0x05 || error == 0x06));
    if (siw) return {code_of(swap_halves(kind), error), false, false, true};
  }
  return {code_of(kind, error), (bits & kDdpHeader) != 0, (bits & kReadHeader) != 0, false};
}

struct CodeName {
  TerminateCode code;
  const char* name;
};

constexpr CodeName kNames[] = {
    {TerminateCode::kRdmapLocalCatastrophic, "RDMAP: local catastrophic error"},
    {TerminateCode::kRdmapInvalidStag, "RDMAP protection: invalid STag"},
    {TerminateCode::kRdmapBaseBounds, "RDMAP protection: base or bounds violation"},
    {TerminateCode::kRdmapAccess, "RDMAP protection: access rights violation"},
    {TerminateCode::kRdmapNotThisStream, "RDMAP protection: STag not of this stream"},
    {TerminateCode::kRdmapToWrap, "RDMAP protection: tagged offset wraps"},
    {TerminateCode::kRdmapCannotInvalidateProtection,
     "RDMAP protection: STag cannot be invalidated"},
    {TerminateCode::kRdmapProtectionUnspecified, "RDMAP protection: unspecified error"},
    {TerminateCode::kRdmapVersion, "RDMAP operation: invalid RDMAP version"},
    {TerminateCode::kRdmapUnexpectedOpcode, "RDMAP operation: unexpected opcode"},
    {TerminateCode::kRdmapCatastrophicStream, "RDMAP operation: catastrophic error of this stream"},
    {TerminateCode::kRdmapCatastrophicGlobal, "RDMAP operation: global catastrophic error"},
    {TerminateCode::kRdmapCannotInvalidate, "RDMAP operation: STag cannot be invalidated"},
    {TerminateCode::kRdmapOperationUnspecified, "RDMAP operation: unspecified error"},
    {TerminateCode::kDdpLocalCatastrophic, "DDP: local catastrophic error"},
    {TerminateCode::kDdpTaggedInvalidStag, "DDP tagged: invalid STag"},
    {TerminateCode::kDdpTaggedBaseBounds, "DDP tagged: base or bounds violation"},
    {TerminateCode::kDdpTaggedNotThisStream, "DDP tagged: STag not of this stream"},
    {TerminateCode::kDdpTaggedToWrap, "DDP tagged: tagged offset wraps"},
    {TerminateCode::kDdpTaggedVersion, "DDP tagged: invalid DDP version"},
    {TerminateCode::kDdpUntaggedInvalidQueue, "DDP untagged: invalid queue number"},
    {TerminateCode::kDdpUntaggedNoBuffer, "DDP untagged: no receive posted"},
    {TerminateCode::kDdpUntaggedMsnRange, "DDP untagged: message number out of range"},
    {TerminateCode::kDdpUntaggedInvalidMo, "DDP untagged: invalid message offset"},
    {TerminateCode::kDdpUntaggedTooLong, "DDP untagged: message too long for the receive"},
    {TerminateCode::kDdpUntaggedVersion, "DDP untagged: invalid DDP version"},
    {TerminateCode::kMpaTcpLost, "MPA: TCP connection lost"},
    {TerminateCode::kMpaCrc, "MPA: CRC error"},
    {TerminateCode::kMpaMarkerOrLength, "MPA: marker and length mismatch"},
    {TerminateCode::kMpaBadStartup, "MPA: invalid Request or Reply frame"},
    {TerminateCode::kMpaLocalCatastrophic, "MPA: local catastrophic error"},
    {TerminateCode::kMpaInsufficientIrd, "MPA: insufficient IRD"},
    {TerminateCode::kMpaNoMatchingRtr, "MPA: no matching ready-to-receive message"},
};

}  // namespace

Terminate make_terminate(TerminateCode code) noexcept {
  Terminate t;
  t.code = code;
  return t;
}

Terminate make_terminate(TerminateCode code, const std::byte* ulpdu, std::uint16_t ulpdu_length,
                         bool with_read_header) noexcept {
  Terminate t;
  t.code = code;
  t.has_ddp_header = true;
  t.segment_length = ulpdu_length;
  const bool tagged = (load8(ulpdu) & kDdpTagged) != 0;
  t.ddp_header_size = tagged ? kTaggedHeaderSize : kUntaggedHeaderSize;
  std::copy_n(ulpdu, t.ddp_header_size, t.ddp_header.data());
  if (with_read_header && !tagged && ulpdu_length >= kUntaggedHeaderSize + kReadRequestSize) {
    t.has_read_header = true;
    std::copy_n(ulpdu + kUntaggedHeaderSize, kReadRequestSize, t.read_header.data());
  }
  return t;
}

Terminate make_read_terminate(TerminateCode code, const ReadRequest& request, std::uint32_t msn,
                              std::uint32_t done) noexcept {
  std::array<std::byte, kUntaggedHeaderSize + kReadRequestSize> ulpdu;
  std::byte* p = ulpdu.data();
  p = store8(p, kDdpLast | kDdpVersionValue);
  p = store8(p, kRdmapVersionValue << kRdmapVersionShift |
                    static_cast<std::uint8_t>(Opcode::kReadRequest));
  p = store32(p, 0);
  p = store32(p, kQueueReadRequest);
  p = store32(p, msn);
  p = store32(p, 0);
  ReadRequest rest = request;
  rest.sink_to += done;
  rest.source_to += done;
  rest.size -= done;
  encode(rest, p);
  return make_terminate(code, ulpdu.data(), static_cast<std::uint16_t>(ulpdu.size()), true);
}

std::size_t encode(const Terminate& in, std::span<std::byte, kTerminateMaxSize> out) noexcept {
  std::byte* p = out.data();
  p = store8(p, static_cast<std::uint8_t>(in.layer() << 4 | in.type()));
  p = store8(p, static_cast<std::uint8_t>(in.error()));
  const bool read_header = in.has_ddp_header && in.has_read_header;
  p = store8(p, static_cast<std::uint8_t>((in.has_ddp_header ? kLengthValid | kDdpHeader : 0) |
                                          (read_header ? kReadHeader : 0)));
  p = store8(p, 0);
  if (in.has_ddp_header) {
    p = store16(p, in.segment_length);
    p = std::copy_n(in.ddp_header.data(), in.ddp_header_size, p);
  }
  if (read_header) p = std::copy_n(in.read_header.data(), kReadRequestSize, p);
  return static_cast<std::size_t>(p - out.data());
}

Terminate decode_terminate(std::span<const std::byte> in, bool startup) noexcept {
  const Control control = decode_control(load8(&in[0]), load8(&in[1]), load8(&in[2]), startup);
  Terminate t;
  t.code = control.code;
  t.wrong_layout = control.wrong_layout;
  if (!control.ddp_header || in.size() < 8) return t;
  const bool tagged = (load8(&in[6]) & kDdpTagged) != 0;
  const std::size_t header_size = tagged ? kTaggedHeaderSize : kUntaggedHeaderSize;
  if (in.size() < 6 + header_size) return t;
  t.has_ddp_header = true;
  t.segment_length = load16(&in[4]);
  t.ddp_header_size = static_cast<std::uint8_t>(header_size);
  std::copy_n(&in[6], header_size, t.ddp_header.data());
  if (!control.read_header || in.size() < 6 + header_size + kReadRequestSize) return t;
  t.has_read_header = true;
  std::copy_n(&in[6 + header_size], kReadRequestSize, t.read_header.data());
  return t;
}

const char* name(TerminateCode code) noexcept {
  for (const CodeName& entry : kNames) {
    if (entry.code == code) return entry.name;
  }
  switch (static_cast<unsigned>(code) >> 12) {
    case 0:
      return "RDMAP: unknown code";
    case 1:
      return "DDP: unknown code";
    case 2:
      return "MPA: unknown code";
    default:
      return "unknown layer";
  }
}

}  // namespace udapl::iwarp
