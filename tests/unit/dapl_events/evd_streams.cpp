// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The streams of an EVD: which go together, and in which modes of completion.
#include "tests/unit/dapl_events/support.h"

#include <array>

namespace udapl::test {

namespace {

constexpr unsigned kDto = DAT_EVD_DTO_FLAG;
constexpr unsigned kSoftware = DAT_EVD_SOFTWARE_FLAG;
constexpr unsigned kConnection = DAT_EVD_CONNECTION_FLAG;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(evd_streams, Fixture)

BOOST_AUTO_TEST_CASE(create_agrees_with_the_merging_matrix) {
  constexpr std::array<unsigned, 6> kStreams = {0x1, 0x10, 0x20, 0x40, 0x80, 0x100};
  for (const bool mergeable : {true, false}) {
    fake::settings().attributes.dto_and_connection_mergeable = mergeable;
    const OpenIa other;
    DAT_PROVIDER_ATTR attr{};
    REQUIRE_OK(other->ia_query_func(other.raw, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
    for (std::size_t i = 0; i < kStreams.size(); ++i) {
      for (std::size_t j = 0; j < kStreams.size(); ++j) {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        const DAT_RETURN code = other->evd_create_func(
            other.raw, 4, nullptr, static_cast<DAT_EVD_FLAGS>(kStreams[i] | kStreams[j]), &evd);
        BOOST_CHECK_EQUAL(code == DAT_SUCCESS,
                          attr.evd_stream_merging_supported[i][j] != DAT_FALSE);
        if (code == DAT_SUCCESS) REQUIRE_OK(other->evd_free_func(evd));
      }
    }
  }
}

// udapl-semantics 4.6: the modes that may share an EVD.
BOOST_AUTO_TEST_CASE(modes_of_streams_that_share_an_evd) {
  using Kind = dapl::Evd::StreamKind;
  constexpr std::array<DAT_COMPLETION_FLAGS, 4> kModes = {
      DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG,
      DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_COMPLETION_SOLICITED_WAIT_FLAG};
  constexpr int kBand[] = {0x30, 0x30, 0x10, 0x20};
  const auto compatible = [](int a, Kind kind_a, int b, Kind kind_b) {
    const auto kind_of_mode = [](int mode) { return mode < 2 ? 0 : mode; };
    const int x = kind_of_mode(a);
    const int y = kind_of_mode(b);
    if (x == y) return true;
    // Solicited receives go with requests that notify always.
    if (x == 3 && y == 0) return kind_b == Kind::kRequest;
    if (y == 3 && x == 0) return kind_a == Kind::kRequest;
    return false;
  };
  for (int a = 0; a < 4; ++a) {
    for (const Kind kind_a : {Kind::kRecv, Kind::kRequest}) {
      for (int b = 0; b < 4; ++b) {
        for (const Kind kind_b : {Kind::kRecv, Kind::kRequest}) {
          dapl::Evd& evd = object(ia.evd(kDto, 1));
          const bool first = evd.attach_stream(kind_a, kModes[a]).ok();
          BOOST_CHECK_EQUAL(first, !(a == 3 && kind_a == Kind::kRequest));
          if (first) {
            BOOST_CHECK_EQUAL(evd.state() & 0x30, kBand[a]);
            const bool second = evd.attach_stream(kind_b, kModes[b]).ok();
            BOOST_CHECK_EQUAL(
                second, !(b == 3 && kind_b == Kind::kRequest) && compatible(a, kind_a, b, kind_b));
            if (second) evd.detach_stream(kind_b, kModes[b]);
            evd.detach_stream(kind_a, kModes[a]);
          }
          BOOST_CHECK_EQUAL(evd.state() & 0x30, 0x30);
          REQUIRE_OK(ia->evd_free_func(&evd));
        }
      }
    }
  }
  for (int mode = 0; mode < 4; ++mode) {  // an EVD that other streams may feed
    dapl::Evd& merged = object(ia.evd(kDto | kConnection, 1));
    BOOST_CHECK_EQUAL(merged.attach_stream(Kind::kRecv, kModes[mode]).ok(), mode < 2);
  }
}

BOOST_AUTO_TEST_CASE(streams_need_their_flag) {
  const dapl::Evd& evd = object(ia.evd(kDto));
  BOOST_CHECK(evd.check_stream(DAT_EVD_DTO_FLAG, DAT_INVALID_HANDLE_EVD_RECV).ok());
  CHECK_CODE(evd.check_stream(DAT_EVD_CONNECTION_FLAG, DAT_INVALID_HANDLE_EVD_CONN).code(),
             DAT_CLASS_ERROR | DAT_INVALID_HANDLE | DAT_INVALID_HANDLE_EVD_CONN);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
