// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

// Data transfer: RDMA Reads, and how many may be in progress.
namespace conformance {

namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

BOOST_AUTO_TEST_SUITE(transfer)

BOOST_AUTO_TEST_CASE(dto_read_data) {
  Pair pair;
  constexpr std::size_t kSize = 1U << 20;
  Buffer sink(pair.ia, pair.pz, kSize);
  Buffer source(pair.ia, pair.pz, kSize);
  source.fill(77);
  pair.connect();
  REQUIRE_OK(pair.active.post_read(sink, source.remote(kSize), 5));
  BOOST_CHECK_EQUAL(expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 5).transfered_length,
                    kSize);
  BOOST_CHECK(sink.holds(77, kSize));
}

BOOST_AUTO_TEST_CASE(dto_read_flow) {
  Pair pair;
  Buffer sink(pair.ia, pair.pz, kPage);
  Buffer source(pair.ia, pair.pz, kPage);
  source.fill(1);
  pair.connect();
  for (std::uint64_t i = 0; i < 16; ++i)
    REQUIRE_OK(pair.active.post_read(sink, source.remote(kPage), i));
  for (std::uint64_t i = 0; i < 16; ++i) expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
}

// The peer serves fewer Reads at a time than the EP may post: the others wait.
BOOST_AUTO_TEST_CASE(dto_read_beyond_the_peer_s_depth, *covers("dto_read_flow")) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.max_rdma_read_in = 4;
  attr.max_rdma_read_out = 4;
  if (skip_unless(
          probe.attr.max_rdma_read_per_ep_in >= 4 && probe.attr.max_rdma_read_per_ep_out >= 4,
          "the IA has no four reads at a time"))
    return;
  Pair pair(&attr);
  DAT_EP_PARAM param{};
  param.ep_attr.max_rdma_read_in = 1;
  REQUIRE_OK(dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, &param));
  Buffer sink(pair.ia, pair.pz, 8 * kPage);
  Buffer source(pair.ia, pair.pz, 8 * kPage);
  source.fill(1);
  pair.connect();
  for (std::uint64_t i = 0; i < 8; ++i)
    REQUIRE_OK(pair.active.post_read(sink, source.remote(8 * kPage), i));
  for (std::uint64_t i = 0; i < 8; ++i) expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
  BOOST_CHECK(sink.holds(1, 8 * kPage));
  BOOST_CHECK_EQUAL(query_ep(pair.active.ep).ep_attr.max_rdma_read_out, 4);
}

// A connected pair whose active side may have no outstanding Reads, but has posted one.
struct ReadDepthZero {
  Pair pair;
  Buffer sink{pair.ia, pair.pz, kPage};
  Buffer source{pair.ia, pair.pz, kPage};

  ReadDepthZero() {
    DAT_EP_PARAM param{};
    REQUIRE_OK(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT, &param));
    sink.fill(1);
    source.fill(2);
    pair.connect();
    REQUIRE_OK(pair.passive.post_recv(source, 8, 1));
    // The request before the Read is executed, and the provider may have cached the memory it uses.
    REQUIRE_OK(pair.active.post_send(sink, 8, 2));
    REQUIRE_OK(pair.active.post_read(sink, source.remote(kPage), 3));
  }
  void expect_failure() {
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
    expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_RESPONDER, 3);
    BOOST_CHECK(sink.holds(1, kPage));
  }
  void expect_end() {
    expect_connection_end(pair.active.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
  }
};

BOOST_AUTO_TEST_CASE(dto_read_depth_zero) {
  ReadDepthZero zero;
  zero.expect_failure();
  zero.expect_end();
}

BOOST_AUTO_TEST_CASE(dto_read_depth_zero_flushes_rest) {
  ReadDepthZero zero;
  REQUIRE_OK(zero.pair.active.post_send(zero.source, 8, 4));
  zero.expect_failure();
  expect_dto(zero.pair.active.request_evd, DAT_DTO_ERR_FLUSHED, 4);
  zero.expect_end();
}

// iWARP may reserve room for the Read that opens a connection; then it serves this one.
BOOST_AUTO_TEST_CASE(dto_read_depth_zero_of_the_peer) {
  Pair pair;
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, &param));
  Buffer sink(pair.ia, pair.pz, kPage);
  Buffer source(pair.ia, pair.pz, kPage);
  pair.connect();
  REQUIRE_OK(pair.active.post_read(sink, source.remote(kPage), 3));
  const DAT_EVENT event = expect_event(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT);
  const auto status = event.event_data.dto_completion_event_data.status;
  BOOST_CHECK_MESSAGE(status == DAT_DTO_SUCCESS || status == DAT_DTO_ERR_REMOTE_RESPONDER,
                      "DTO status " << status);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
