// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"
#include "peer.h"

// Creating and configuring EPs: section 10.6 of the checklist (checklist.cpp), whose names the
// tests have. Tests that depend on the state (ep_modify_pz_states, ep_modify_evd_states,
// ep_reset_states and the rest) are in endpoint_states, ep_reset_* in disconnect,
// ep_query_remote_connected in connection.
namespace conformance {

namespace {

struct Status {
  DAT_EP_STATE state{};
  DAT_BOOLEAN recv_idle{};
  DAT_BOOLEAN request_idle{};
};

Status status_of(DAT_EP_HANDLE ep) {
  Status status;
  REQUIRE_OK(dat_ep_get_status(ep, &status.state, &status.recv_idle, &status.request_idle));
  return status;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(endpoint)

BOOST_AUTO_TEST_CASE(ep_create_null_attr, *covers("ep_create_unconnected")) {
  Ia ia;
  const Pz pz = make_pz(ia);
  End end;
  end.create(ia, pz, nullptr);
  const DAT_EP_ATTR attr = query_ep(end.ep).ep_attr;
  BOOST_CHECK_EQUAL(attr.service_type, DAT_SERVICE_TYPE_RC);
  BOOST_CHECK_EQUAL(attr.qos, DAT_QOS_BEST_EFFORT);
  const auto within = [](auto value, auto least, auto most) {
    BOOST_CHECK_GE(value, least);
    BOOST_CHECK_LE(value, most);
  };
  within(attr.max_message_size, 1U, ia.attr.max_message_size);
  within(attr.max_rdma_size, 1U, ia.attr.max_rdma_size);
  within(attr.max_recv_dtos, 1, ia.attr.max_dto_per_ep);
  within(attr.max_request_dtos, 1, ia.attr.max_dto_per_ep);
  within(attr.max_recv_iov, 1, ia.attr.max_iov_segments_per_dto);
  within(attr.max_request_iov, 1, ia.attr.max_iov_segments_per_dto);
  within(attr.max_rdma_read_in, 0, ia.attr.max_rdma_read_per_ep_in);
  within(attr.max_rdma_read_out, 0, ia.attr.max_rdma_read_per_ep_out);
  within(attr.max_rdma_read_iov, 0, ia.attr.max_iov_segments_per_rdma_read);
  within(attr.max_rdma_write_iov, 0, ia.attr.max_iov_segments_per_rdma_write);
  const Status status = status_of(end.ep);
  BOOST_CHECK_EQUAL(status.state, DAT_EP_STATE_UNCONNECTED);
  BOOST_CHECK_EQUAL(status.recv_idle, DAT_TRUE);
  BOOST_CHECK_EQUAL(status.request_idle, DAT_TRUE);
}

BOOST_AUTO_TEST_CASE(ep_create_wrong_evd_flag) {
  Pair pair;
  Ia other;
  const Pz foreign_pz = make_pz(other);
  const Evd foreign_evd = make_evd(other, DAT_EVD_DTO_FLAG);
  const DAT_EVD_HANDLE dto = pair.active.recv_evd;
  const DAT_EVD_HANDLE connection = pair.active.connect_evd;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  const auto create = [&](DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
                          DAT_EVD_HANDLE connect) {
    return dat_ep_create(pair.ia, pz, recv, request, connect, nullptr, &ep);
  };
  CHECK_TYPE(create(pair.pz, connection, dto, connection), DAT_INVALID_HANDLE);
  CHECK_TYPE(create(pair.pz, dto, connection, connection), DAT_INVALID_HANDLE);
  CHECK_TYPE(create(pair.pz, dto, dto, dto), DAT_INVALID_HANDLE);
  CHECK_TYPE(create(pair.pz, pair.cr_evd, dto, connection), DAT_INVALID_HANDLE);
  // Objects of another open of the IA.
  CHECK_TYPE(create(foreign_pz, dto, dto, connection), DAT_INVALID_HANDLE);
  CHECK_TYPE(create(pair.pz, foreign_evd, dto, connection), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_create(pair.ia, pair.pz, dto, dto, connection, nullptr, nullptr),
             DAT_INVALID_PARAMETER);
}

// Some MPI libraries use one EVD for receives that notify and for UNSIGNALLED requests.
BOOST_AUTO_TEST_CASE(ep_create_mixed_completion_modes, *covers("ofa_2_2_07_mode_of_an_evd")) {
  Pair pair;  // all its streams use EVD_THRESHOLD
  const auto create_with = [&](DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,
                               DAT_COMPLETION_FLAGS recv, DAT_COMPLETION_FLAGS request) {
    DAT_EP_ATTR attr = default_ep_attr(pair.ia);
    attr.recv_completion_flags = recv;
    attr.request_completion_flags = request;
    Ep ep;
    REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, recv_evd, request_evd, pair.active.connect_evd,
                             &attr, ep.out()));
    DAT_EP_PARAM param{};
    REQUIRE_OK(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
    BOOST_CHECK_EQUAL(param.ep_attr.recv_completion_flags, recv);
    BOOST_CHECK_EQUAL(param.ep_attr.request_completion_flags, request);
    return ep;
  };
  const Evd shared = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 64);
  for (const auto recv : {DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG,
                          DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_COMPLETION_SOLICITED_WAIT_FLAG})
    for (const auto request : {DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_EVD_THRESHOLD_FLAG,
                               DAT_COMPLETION_UNSIGNALLED_FLAG}) {
      create_with(shared, shared, recv, request);
      create_with(pair.active.recv_evd, pair.active.request_evd, recv, request);
    }
  // The streams of freed EPs no longer count.
  const Ep alone =
      create_with(shared, shared, DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
  DAT_EVENT event;
  DAT_COUNT more = 0;
  CHECK_TYPE(dat_evd_wait(shared, 0, 2, &event, &more), DAT_TIMEOUT_EXPIRED);
}

// With two modes on one EVD, each completion notifies according to the mode of its own stream.
BOOST_AUTO_TEST_CASE(ep_mixed_completion_modes_transfer,
                     *covers("ep_create_mixed_completion_modes")) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  Pair pair(&attr);
  const DAT_EVD_HANDLE all = pair.active.recv_evd;
  for (End* end : {&pair.active, &pair.passive}) {
    DAT_EP_PARAM param{};
    param.recv_evd_handle = all;
    param.request_evd_handle = all;
    REQUIRE_OK(dat_ep_modify(
        end->ep, DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE, &param));
  }
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_EVENT event;
  DAT_COUNT more = 0;
  CHECK_TYPE_OR(dat_evd_wait(all, 0, 2, &event, &more), DAT_INVALID_STATE, DAT_INVALID_PARAMETER);
  constexpr std::uint64_t kMessages = 4;
  for (std::uint64_t i = 0; i < kMessages; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  for (std::uint64_t i = 0; i < kMessages; ++i)
    REQUIRE_OK(pair.active.post_send(out, 64, 100 + i, DAT_COMPLETION_UNSIGNALLED_FLAG));
  // The receives wake the waiter; in the end every completion has arrived exactly once.
  std::uint64_t sends = 0;
  std::uint64_t receives = 0;
  while (receives < kMessages) {
    REQUIRE_OK(dat_evd_wait(all, kPatience, 1, &event, &more));
    const std::uint64_t cookie = event.event_data.dto_completion_event_data.user_cookie.as_64;
    BOOST_CHECK_EQUAL(cookie, cookie < 100 ? receives : 100 + sends);
    ++(cookie < 100 ? receives : sends);
  }
  for (; sends < kMessages; ++sends) expect_dto(all, DAT_DTO_SUCCESS, 100 + sends);
}

// The receives come from the SRQ, so the EP attributes about receives are ignored.
BOOST_AUTO_TEST_CASE(ep_create_with_srq_ignores) {
  Pair pair;
  if (skip_unless(pair.ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  DAT_SRQ_ATTR srq_attr{8, 0, 5};  // with unused segments and a watermark
  Srq srq;
  REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &srq_attr, srq.out()));
  DAT_SRQ_PARAM param{};
  REQUIRE_OK(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.low_watermark, 5);
  BOOST_CHECK_GE(param.max_recv_iov, 1);
  const auto create = [&](const DAT_EP_ATTR* attr) {
    Ep ep;
    REQUIRE_OK(dat_ep_create_with_srq(pair.ia, pair.pz, pair.active.recv_evd,
                                      pair.active.request_evd, pair.active.connect_evd, srq, attr,
                                      ep.out()));
  };
  create(nullptr);
  for (const DAT_COUNT count : {0, -1, 0x7fffffff}) {
    DAT_EP_ATTR attr = default_ep_attr(pair.ia);
    attr.max_recv_iov = count;
    attr.max_recv_dtos = count;
    create(&attr);
  }
}

BOOST_AUTO_TEST_CASE(ep_create_with_srq_refused) {
  Pair pair;
  if (skip_unless(pair.ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  DAT_SRQ_ATTR srq_attr{8, 1, DAT_SRQ_LW_DEFAULT};
  Srq srq;
  REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &srq_attr, srq.out()));
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  const auto create = [&](DAT_SRQ_HANDLE which, DAT_PZ_HANDLE pz, const DAT_EP_ATTR* how) {
    return dat_ep_create_with_srq(pair.ia, pz, pair.active.recv_evd, pair.active.request_evd,
                                  pair.active.connect_evd, which, how, &ep);
  };
  CHECK_TYPE(create(DAT_HANDLE_NULL, pair.pz, &attr), DAT_INVALID_HANDLE);
  const Pz other = make_pz(pair.ia);
  const DAT_RETURN rc = create(srq, other, &attr);
  if (pair.ia.provider().srq_ep_pz_difference_supported == DAT_TRUE) {
    REQUIRE_OK(rc);
    REQUIRE_OK(dat_ep_free(ep));
  } else {
    CHECK_TYPE(rc, DAT_INVALID_PARAMETER);
  }
  attr.max_request_iov = pair.ia.attr.max_iov_segments_per_dto + 1;
  CHECK_TYPE(create(srq, pair.pz, &attr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_srq_free(srq.release()));  // the failed creations left no EP on it
}

BOOST_AUTO_TEST_CASE(ep_status_idle_sense, *covers("ofa_2_1_13_idle_flags")) {
  PairWithProcess with;
  Pair& pair = with.pair;
  End& end = pair.passive;
  Buffer buffer(pair.ia, pair.pz, 64);
  REQUIRE_OK(end.post_recv(buffer, 64, 1));
  BOOST_CHECK_EQUAL(status_of(end.ep).recv_idle, DAT_FALSE);
  BOOST_CHECK_EQUAL(status_of(end.ep).request_idle, DAT_TRUE);
  with.connect_stalled();
  BOOST_CHECK_EQUAL(status_of(end.ep).recv_idle, DAT_FALSE);
  REQUIRE_OK(with.post_stalled_send(2));
  BOOST_CHECK_EQUAL(status_of(end.ep).request_idle, DAT_FALSE);
  with.unblock_peer();
  expect_dto(end.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK_EQUAL(status_of(end.ep).request_idle, DAT_TRUE);
  REQUIRE_OK(dat_ep_disconnect(end.ep, DAT_CLOSE_ABRUPT_FLAG));
  expect_event(end.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_dto(end.recv_evd, DAT_DTO_ERR_FLUSHED, 1);
  BOOST_CHECK_EQUAL(status_of(end.ep).recv_idle, DAT_TRUE);
  REQUIRE_OK(dat_ep_get_status(end.ep, nullptr, nullptr, nullptr));
}

BOOST_AUTO_TEST_CASE(ep_free_unconnected_posted) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(pair.active.post_recv(buffer, 64, i));
  REQUIRE_OK(dat_ep_free(pair.active.ep.release()));
  REQUIRE_OK(dat_lmr_free(buffer.lmr.release()));
  drain(pair.active.recv_evd);  // flushed receives, or nothing
}

// An EP is freed while completions are still queued.
BOOST_AUTO_TEST_CASE(ep_free_with_completions_queued) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(pair.active.post_send(out, 64, i));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 0);
  REQUIRE_OK(dat_ep_free(pair.passive.ep.release()));
  REQUIRE_OK(dat_ep_free(pair.active.ep.release()));
  BOOST_CHECK_LE(drain(pair.passive.recv_evd), 7);
  BOOST_CHECK_LE(drain(pair.active.request_evd), 8);
  // The EVDs can serve another EP.
  Ep next;
  REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, pair.passive.recv_evd, pair.passive.request_evd,
                           pair.passive.connect_evd, nullptr, next.out()));
}

BOOST_AUTO_TEST_CASE(ep_free_reserved) {
  Pair pair;
  Rsp rsp;
  REQUIRE_OK(dat_rsp_create(pair.ia, fresh_conn_qual(), pair.passive.ep, pair.cr_evd, rsp.out()));
  CHECK_TYPE(dat_ep_free(pair.passive.ep), DAT_INVALID_STATE);
  REQUIRE_OK(dat_rsp_free(rsp.release()));
  REQUIRE_OK(dat_ep_free(pair.passive.ep.release()));
}

BOOST_AUTO_TEST_CASE(ep_free_passive) {
  Pair pair;
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  REQUIRE_OK(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, &rsp));
  REQUIRE_OK(dat_ep_connect(pair.active.ep, pair.ia.attr.ia_address_ptr, conn_qual, kPatience, 0,
                            nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  CHECK_TYPE(dat_ep_free(pair.passive.ep), DAT_INVALID_STATE);
  REQUIRE_OK(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
  REQUIRE_OK(dat_ep_free(pair.passive.ep.release()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
