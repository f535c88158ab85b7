// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/terminate.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tests/unit/iwarp/support.h"

using namespace iwarp_test;

namespace {

Terminate decoded(const char* text, bool startup = false) {
  return decode_terminate(hex(text), startup);
}
std::string encoded(const Terminate& t) {
  std::array<std::byte, kTerminateMaxSize> out;
  return to_hex(std::span(out).first(encode(t, out)));
}

constexpr TerminateCode kAll[] = {
    TerminateCode::kRdmapLocalCatastrophic,
    TerminateCode::kRdmapInvalidStag,
    TerminateCode::kRdmapBaseBounds,
    TerminateCode::kRdmapAccess,
    TerminateCode::kRdmapNotThisStream,
    TerminateCode::kRdmapToWrap,
    TerminateCode::kRdmapCannotInvalidateProtection,
    TerminateCode::kRdmapProtectionUnspecified,
    TerminateCode::kRdmapVersion,
    TerminateCode::kRdmapUnexpectedOpcode,
    TerminateCode::kRdmapCatastrophicStream,
    TerminateCode::kRdmapCatastrophicGlobal,
    TerminateCode::kRdmapCannotInvalidate,
    TerminateCode::kRdmapOperationUnspecified,
    TerminateCode::kDdpLocalCatastrophic,
    TerminateCode::kDdpTaggedInvalidStag,
    TerminateCode::kDdpTaggedBaseBounds,
    TerminateCode::kDdpTaggedNotThisStream,
    TerminateCode::kDdpTaggedToWrap,
    TerminateCode::kDdpTaggedVersion,
    TerminateCode::kDdpUntaggedInvalidQueue,
    TerminateCode::kDdpUntaggedNoBuffer,
    TerminateCode::kDdpUntaggedMsnRange,
    TerminateCode::kDdpUntaggedInvalidMo,
    TerminateCode::kDdpUntaggedTooLong,
    TerminateCode::kDdpUntaggedVersion,
    TerminateCode::kMpaTcpLost,
    TerminateCode::kMpaCrc,
    TerminateCode::kMpaMarkerOrLength,
    TerminateCode::kMpaBadStartup,
    TerminateCode::kMpaLocalCatastrophic,
    TerminateCode::kMpaInsufficientIrd,
    TerminateCode::kMpaNoMatchingRtr,
};

}  // namespace

BOOST_AUTO_TEST_SUITE(terminate_message)

BOOST_AUTO_TEST_CASE(every_code_round_trips_with_every_header) {
  const Bytes write = tagged_ulpdu(0, true, 7, 8, pattern(40));
  const Bytes send = untagged_ulpdu(3, true, 0, 1, 0, pattern(40));
  const ReadRequest read{1, 2, 3, 4, 5};
  for (const TerminateCode code : kAll) {
    for (const Terminate& t :
         {make_terminate(code), make_terminate(code, write.data(), 54, false),
          make_terminate(code, send.data(), 58, false), make_read_terminate(code, read, 9, 1)}) {
      const bool ambiguous = !t.has_ddp_header && (code == TerminateCode::kMpaLocalCatastrophic ||
                                                   code == TerminateCode::kMpaInsufficientIrd);
      Bytes bytes = hex(encoded(t));
      BOOST_TEST((decode_terminate(bytes, true) == t), name(code));
      BOOST_TEST((decode_terminate(bytes, false) == t) != ambiguous, name(code));
      bytes.insert(bytes.end(), 9, std::byte{0xEE});  // longer than needed
      BOOST_TEST((decode_terminate(bytes, true) == t), name(code));
    }
  }
}

BOOST_AUTO_TEST_CASE(exactly_the_registered_codes_have_names) {
  for (const TerminateCode code : kAll) {
    BOOST_TEST(std::strstr(name(code), "unknown") == nullptr);
  }
  for (unsigned code = 0; code <= 0xFFFF; ++code) {
    const bool registered = std::find(std::begin(kAll), std::end(kAll),
                                      static_cast<TerminateCode>(code)) != std::end(kAll);
    const bool unknown = std::strstr(name(static_cast<TerminateCode>(code)), "unknown") != nullptr;
    BOOST_REQUIRE_NE(registered, unknown);
  }
}

BOOST_AUTO_TEST_CASE(started_read_is_advanced) {
  const Terminate t =
      make_read_terminate(TerminateCode::kRdmapAccess, {1, 0x100, 50, 2, 0x200}, 4, 20);
  BOOST_TEST((decode_read_request(t.read_header.data()) == ReadRequest{1, 0x114, 30, 2, 0x214}));
  BOOST_TEST(to_hex(t.ddp_header) == "414100000000000000010000000400000000");
  BOOST_TEST(t.segment_length == 46);
}

BOOST_AUTO_TEST_CASE(layout_of_siw_is_understood) {
  // Layer and type swapped, M and D as bits 0 and 1: DDP tagged, invalid STag, of a Write.
  Terminate t = decoded("11000300 0008 c140deadbe000000000000000000");
  BOOST_TEST((t.code == TerminateCode::kDdpTaggedInvalidStag));
  BOOST_TEST(t.wrong_layout);
  BOOST_TEST(t.has_ddp_header);
  BOOST_TEST(t.segment_length == 8);
  t = decoded("21020300 0008 414300000000000000000000000100000000");
  BOOST_TEST((t.code == TerminateCode::kDdpUntaggedNoBuffer));
  t = decoded(
      "10010700 0008 41410000000000000001000000080000000000000001000000000000000000000008deadbe00"
      "0000000000000000");
  BOOST_TEST((t.code == TerminateCode::kRdmapBaseBounds));
  BOOST_TEST(t.has_read_header);
  BOOST_TEST(decode_read_request(t.read_header.data()).source_stag == 0xdeadbe00U);

  // Without header bits the layout is guessed.
  BOOST_TEST((decoded("02020000").code == TerminateCode::kMpaCrc));
  BOOST_TEST((decoded("20050000").code == TerminateCode::kRdmapVersion));
  BOOST_TEST((decoded("20060000").code == TerminateCode::kRdmapUnexpectedOpcode));
  BOOST_TEST((decoded("21060000").code == TerminateCode::kDdpUntaggedVersion));
  BOOST_TEST((decoded("20060000", true).code == TerminateCode::kMpaInsufficientIrd));
  BOOST_TEST((decoded("20070000").code == TerminateCode::kMpaNoMatchingRtr));
  BOOST_TEST((decoded("12060000").code == TerminateCode::kDdpUntaggedVersion));
}

// If the header bits announce more than there is, the part present is kept, and nothing beyond it
// is read.
BOOST_AUTO_TEST_CASE(cut_short_anywhere) {
  const Bytes whole = hex(encoded(make_read_terminate(TerminateCode::kRdmapAccess, {}, 1, 0)));
  for (std::size_t n = 4; n < whole.size(); ++n) {
    const Bytes exact(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    const Terminate t = decode_terminate(exact, false);
    BOOST_TEST((t.code == TerminateCode::kRdmapAccess));
    BOOST_TEST(t.has_ddp_header == (n >= 24));
    BOOST_TEST(!t.has_read_header);
  }
}

BOOST_AUTO_TEST_SUITE_END()
