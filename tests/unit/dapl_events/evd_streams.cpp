// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The streams of an EVD: which ones can be merged, and in which completion modes.
#include "tests/unit/dapl_events/support.h"

#include <algorithm>
#include <array>

namespace udapl::test {

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

// Streams of all modes can be merged; the EVD reports the strictest mode.
BOOST_AUTO_TEST_CASE(modes_of_streams_that_share_an_evd) {
  using Kind = dapl::Evd::StreamKind;
  constexpr std::array<DAT_COMPLETION_FLAGS, 4> kModes = {
      DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG,
      DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_COMPLETION_SOLICITED_WAIT_FLAG};
  const auto band = [](DAT_COMPLETION_FLAGS mode, Kind kind) {
    if (mode == DAT_COMPLETION_UNSIGNALLED_FLAG) return DAT_EVD_STATE_CONFIG_NOTIFY;
    // Requests have no solicited mode.
    return mode == DAT_COMPLETION_SOLICITED_WAIT_FLAG && kind == Kind::kRecv
               ? DAT_EVD_STATE_CONFIG_SOLICITED
               : DAT_EVD_STATE_CONFIG_THRESHOLD;
  };
  for (const unsigned flags : {kDto, kDto | kConnection}) {
    for (const DAT_COMPLETION_FLAGS a : kModes) {
      for (const Kind kind_a : {Kind::kRecv, Kind::kRequest}) {
        for (const DAT_COMPLETION_FLAGS b : kModes) {
          for (const Kind kind_b : {Kind::kRecv, Kind::kRequest}) {
            dapl::Evd& evd = object(ia.evd(flags, 8));
            evd.attach_stream(kind_a, dapl::completion_mode(a));
            BOOST_CHECK_EQUAL(evd.state() & 0x30, band(a, kind_a));
            evd.attach_stream(kind_b, dapl::completion_mode(b));
            const DAT_EVD_STATE both = std::min(band(a, kind_a), band(b, kind_b));
            BOOST_CHECK_EQUAL(evd.state() & 0x30, both);
            // A waiter cannot count events that do not notify.
            DAT_EVENT event;
            DAT_COUNT more = 0;
            CHECK_CODE(ia->evd_wait_func(&evd, 0, 1, &event, &more), DAT_TIMEOUT_EXPIRED);
            const DAT_RETURN batch = ia->evd_wait_func(&evd, 0, 2, &event, &more);
            CHECK_CODE(DAT_GET_TYPE(batch), both == DAT_EVD_STATE_CONFIG_THRESHOLD
                                                ? DAT_TIMEOUT_EXPIRED
                                                : DAT_INVALID_STATE);
            evd.detach_stream(kind_b, dapl::completion_mode(b));
            BOOST_CHECK_EQUAL(evd.state() & 0x30, band(a, kind_a));
            evd.detach_stream(kind_a, dapl::completion_mode(a));
            BOOST_CHECK_EQUAL(evd.state() & 0x30, DAT_EVD_STATE_CONFIG_THRESHOLD);
            REQUIRE_OK(ia->evd_free_func(&evd));
          }
        }
      }
    }
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
