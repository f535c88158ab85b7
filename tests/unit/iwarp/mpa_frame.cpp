// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/mpa_frame.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/support.h"

using namespace iwarp_test;

namespace {

const std::string kRequestKey = "4d504120494420526571204672616d65";
const std::string kReplyKey = "4d504120494420526570204672616d65";

std::string encoded(const MpaFrame& frame) {
  std::array<std::byte, kMpaMaxFrameSize> out;
  return to_hex(std::span(out).first(encode(frame, out)));
}

MpaError decoded(const std::string& text, MpaKind kind) {
  return decode_mpa(hex(text), kind).error;
}

}  // namespace

BOOST_TEST_DONT_PRINT_LOG_VALUE(udapl::iwarp::MpaError)
BOOST_TEST_DONT_PRINT_LOG_VALUE(udapl::iwarp::MpaKind)

BOOST_AUTO_TEST_SUITE(mpa_frame)

BOOST_AUTO_TEST_CASE(request_has_the_golden_bytes) {
  MpaFrame f;
  f.kind = MpaKind::kRequest;
  f.peer_to_peer = true;
  f.rtr = kRtrRead;
  f.ird = f.ord = 8;
  f.private_data = as_bytes("hi");
  const std::string text = kRequestKey + "5002000680084008" + "6869";
  BOOST_TEST(encoded(f) == text);

  const Bytes bytes = hex(text);
  const MpaDecode d = decode_mpa(bytes, MpaKind::kRequest);
  BOOST_TEST((d.error == MpaError::kNone));
  BOOST_TEST(d.size == bytes.size());
  BOOST_TEST((d.frame.crc && !d.frame.markers && !d.frame.reject && d.frame.enhanced));
  BOOST_TEST(d.frame.revision == 2);
  BOOST_TEST(d.frame.peer_to_peer);
  BOOST_TEST(d.frame.rtr == kRtrRead);
  BOOST_TEST(d.frame.ird == 8);
  BOOST_TEST(d.frame.ord == 8);
  BOOST_TEST(to_hex(d.frame.private_data) == "6869");
}

BOOST_AUTO_TEST_CASE(reply_has_the_golden_bytes) {
  MpaFrame f;
  f.kind = MpaKind::kReply;
  f.peer_to_peer = true;
  f.rtr = kRtrRead;
  f.ird = f.ord = 8;
  BOOST_TEST(encoded(f) == kReplyKey + "5002000480084008");
  BOOST_TEST((decoded(kReplyKey + "5002000480084008", MpaKind::kReply) == MpaError::kNone));
}

BOOST_AUTO_TEST_CASE(golden_siw_reject) {
  const Bytes bytes = hex(kReplyKey + "3002000400000000");
  const MpaDecode d = decode_mpa(bytes, MpaKind::kReply);
  BOOST_TEST((d.error == MpaError::kNone));
  BOOST_TEST((d.frame.reject && d.frame.enhanced && !d.frame.crc));
  BOOST_TEST(d.frame.private_data.empty());
}

// Every flag and every bit of the enhanced words survives a round trip, for both kinds.
BOOST_AUTO_TEST_CASE(round_trip_of_every_bit) {
  const Bytes data = pattern(17);
  for (unsigned bits = 0; bits < 1U << 10; ++bits) {
    MpaFrame f;
    f.kind = bits & 1 ? MpaKind::kReply : MpaKind::kRequest;
    f.markers = bits & 2;
    f.crc = bits & 4;
    f.reject = (bits & 8) && f.kind == MpaKind::kReply;
    f.enhanced = bits & 16;
    f.revision = bits & 32 || f.enhanced ? 2 : 1;
    if (f.enhanced) {
      f.peer_to_peer = bits & 64;
      f.rtr = bits >> 7 & 7;
      f.ird = 0x2AAA;
      f.ord = 0x3FFF;
    }
    f.private_data = data;
    const Bytes bytes = hex(encoded(f));
    const MpaDecode d = decode_mpa(bytes, f.kind);
    BOOST_REQUIRE((d.error == MpaError::kNone));
    BOOST_REQUIRE_EQUAL(encoded(d.frame), to_hex(bytes));
    BOOST_REQUIRE_EQUAL(to_hex(d.frame.private_data), to_hex(data));
  }
}

// Any prefix is incomplete, and the number of bytes asked for is not more than the frame has; one
// byte too many is refused.
BOOST_AUTO_TEST_CASE(any_prefix_is_incomplete) {
  MpaFrame f;
  const Bytes data = pattern(30);
  f.private_data = data;
  Bytes bytes = hex(encoded(f));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const MpaDecode d = decode_mpa(std::span(bytes).first(n), MpaKind::kRequest);
    BOOST_REQUIRE((d.error == MpaError::kIncomplete));
    BOOST_REQUIRE_EQUAL(d.size, n < kMpaFixedSize ? kMpaFixedSize : bytes.size());
  }
  bytes.push_back(std::byte{0});
  BOOST_TEST((decode_mpa(bytes, MpaKind::kRequest).error == MpaError::kExtraBytes));
}

BOOST_AUTO_TEST_CASE(private_data_limits) {
  const Bytes data = pattern(513);
  for (const bool enhanced : {false, true}) {
    MpaFrame f;
    f.enhanced = enhanced;
    const std::size_t most = max_private_data(enhanced);
    f.private_data = std::span(data).first(most);
    const Bytes bytes = hex(encoded(f));
    BOOST_TEST(bytes.size() == kMpaMaxFrameSize);
    BOOST_TEST((decode_mpa(bytes, MpaKind::kRequest).error == MpaError::kNone));
    f.private_data = std::span(data).first(most + 1);
    BOOST_TEST(encoded(f) == "");
  }
}

// RFC 5044 §7.1.3: each reason to close; if several apply, the earlier one wins.
BOOST_AUTO_TEST_CASE(refusals_in_order) {
  const auto error = [](const std::string& rest, MpaKind kind = MpaKind::kRequest) {
    return decoded((kind == MpaKind::kRequest ? kRequestKey : kReplyKey) + rest, kind);
  };
  BOOST_TEST((decoded("4e", MpaKind::kRequest) == MpaError::kBadKey));
  BOOST_TEST((decoded("4d5041204944205265712046726100", MpaKind::kRequest) == MpaError::kBadKey));
  BOOST_TEST((decoded(kReplyKey + "40020000", MpaKind::kRequest) == MpaError::kWrongKind));
  BOOST_TEST((decoded(kRequestKey + "40020000", MpaKind::kReply) == MpaError::kWrongKind));
  BOOST_TEST((error("4000") == MpaError::kBadRevision));
  BOOST_TEST((error("4003ffff") == MpaError::kBadRevision));
  BOOST_TEST((error("50020201") == MpaError::kTooLong));
  BOOST_TEST((error("50010201") == MpaError::kTooLong));
  BOOST_TEST((error("5001000480084008") == MpaError::kBadEnhanced));
  BOOST_TEST((error("50020003800840") == MpaError::kBadEnhanced));
  BOOST_TEST((error("50020000") == MpaError::kBadEnhanced));
  BOOST_TEST((error("4002000000") == MpaError::kExtraBytes));
  BOOST_TEST((error("40010000") == MpaError::kNone));
  BOOST_TEST((error("4f020000") == MpaError::kNone));  // reserved bits are ignored
  // A Request cannot reject. siw rejects with S set but without the enhanced words.
  BOOST_TEST(!decode_mpa(hex(kRequestKey + "60020000"), MpaKind::kRequest).frame.reject);
  BOOST_TEST((error("70020000", MpaKind::kReply) == MpaError::kNone));
  BOOST_TEST((error("70020000", MpaKind::kRequest) == MpaError::kBadEnhanced));
  BOOST_TEST((error("50020000", MpaKind::kReply) == MpaError::kBadEnhanced));
}

BOOST_AUTO_TEST_CASE(random_input_is_harmless) {
  std::minstd_rand random(20240607);
  const Bytes key = hex(kRequestKey);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = pattern(random() % 600, static_cast<unsigned>(random()));
    if (random() % 2) std::copy_n(key.begin(), std::min(key.size(), bytes.size()), bytes.begin());
    if (random() % 2 && bytes.size() > 18) bytes[17] = std::byte{2}, bytes[18] = std::byte{0};
    const MpaDecode d = decode_mpa(bytes, MpaKind::kRequest);
    BOOST_REQUIRE(d.size >= kMpaFixedSize);
    BOOST_REQUIRE(d.size <= kMpaMaxFrameSize);
    if (d.error == MpaError::kNone) BOOST_REQUIRE_EQUAL(d.size, bytes.size());
  }
}

BOOST_AUTO_TEST_SUITE_END()
