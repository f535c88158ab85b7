// SPDX-License-Identifier: MIT OR GPL-2.0-only
// An EP's reports on the asynchronous EVD: its watermarks, and errors of the transport.
#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(asynchronous, Rig)

BOOST_AUTO_TEST_CASE(watermark_reached_is_reported) {
  const Side side = this->side();
  const Side peer = this->side();
  join(peer, side);
  const auto set = [&](DAT_COUNT soft, DAT_COUNT hard) {
    return ia->ep_set_watermark_func(side.ep, soft, hard);
  };
  CHECK_CODE(set(-2, 3), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(set(9, 3), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(set(3, -3), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(set(3, 9), invalid_parameter(DAT_INVALID_ARG3));
  REQUIRE_OK(set(2, DAT_WATERMARK_INFINITE));
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(post_recv(side.ep, buffer, i));
  DAT_COUNT held = 0;
  DAT_COUNT span = 0;
  REQUIRE_OK(ia->ep_recv_query_func(side.ep, &held, &span));
  BOOST_CHECK_EQUAL(held, 4);
  BOOST_CHECK_GE(span, held);
  run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_ASYNC_ERROR_EP_BROKEN));
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.dat_handle, side.ep);
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason,
                    static_cast<DAT_COUNT>(DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT));
  BOOST_CHECK(empty(ia.async));
  REQUIRE_OK(set(DAT_WATERMARK_INFINITE, 3));
  run();
  BOOST_CHECK_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_BROKEN);
}

BOOST_AUTO_TEST_CASE(watermarks_set_before_there_is_a_qp) {
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  const DAT_EVD_HANDLE recv = ia.evd(DAT_EVD_DTO_FLAG);
  REQUIRE_OK(ia->ep_create_func(ia.raw, nullptr, recv, nullptr, nullptr, nullptr, &ep));
  REQUIRE_OK(ia->ep_set_watermark_func(ep, 1, DAT_WATERMARK_INFINITE));
  DAT_EP_PARAM param{};
  param.pz_handle = pz;
  REQUIRE_OK(ia->ep_modify_func(ep, DAT_EP_FIELD_PZ_HANDLE, &param));
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE_OK(post_recv(ep, buffer, i));
  run();
  BOOST_CHECK(!empty(ia.async));
}

BOOST_AUTO_TEST_CASE(an_asynchronous_error) {
  const Side side = this->side();
  qp(side.ep).async_error();
  run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason,
                    static_cast<DAT_COUNT>(DAT_EP_TRANSFER_TO_ERROR));
  BOOST_CHECK_EQUAL(state(side.ep), DAT_EP_STATE_UNCONNECTED);
}

// The CQ has room for everything that the EP may post. If the transport loses a completion all the
// same, the connection is broken.
BOOST_AUTO_TEST_CASE(a_queue_of_a_direction_without_evd_overflows) {
  const DAT_EP_ATTR attr = attributes();
  Side quiet;
  quiet.connect_evd = ia.evd(DAT_EVD_CONNECTION_FLAG, 8);
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, nullptr, nullptr, quiet.connect_evd, &attr, &quiet.ep));
  join(quiet, side());
  const Traced traced;
  static_cast<fake::Cq*>(qp(quiet.ep).init().recv_cq)->overflow();
  run();
  BOOST_CHECK(traced.has(trace::kError, "the CQ of a direction without EVD overflowed"));
  BOOST_CHECK_EQUAL(take_connection(quiet.connect_evd), DAT_CONNECTION_EVENT_BROKEN);
  BOOST_CHECK_EQUAL(state(quiet.ep), DAT_EP_STATE_DISCONNECTED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
