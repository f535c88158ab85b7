// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <algorithm>

// Return codes of data transfer and memory that include/dat/api documents and no line of the
// checklist (checklist.cpp) requires.
namespace conformance {

BOOST_AUTO_TEST_SUITE(return_codes)

// ---- data transfer: 2.8 ----

// Longer than the maximum of the IA; the memory is not checked.
BOOST_AUTO_TEST_CASE(rc_dto_too_long) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_LMR_TRIPLET segments[2] = {buffer.local(), buffer.local()};
  for (DAT_LMR_TRIPLET& segment : segments) segment.segment_length = 0xffffffffU;
  DAT_RMR_TRIPLET remote = buffer.remote(64);
  remote.segment_length = 0xffffffffU;
  CHECK_TYPE_OR(
      dat_ep_post_send(pair.active.ep, 2, segments, cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
      DAT_INVALID_PARAMETER, DAT_LENGTH_ERROR);
  CHECK_TYPE_OR(dat_ep_post_rdma_write(pair.active.ep, 2, segments, cookie(1), &remote,
                                       DAT_COMPLETION_DEFAULT_FLAG),
                DAT_INVALID_PARAMETER, DAT_LENGTH_ERROR);
  CHECK_TYPE_OR(dat_ep_post_rdma_read(pair.active.ep, 1, segments, cookie(1), &remote,
                                      DAT_COMPLETION_DEFAULT_FLAG),
                DAT_INVALID_PARAMETER, DAT_LENGTH_ERROR);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_CONNECTED);
  pair.disconnect();
}

// An EP created for fewer segments still accepts 4, because devices round up, and never accepts
// more than the maximum of the IA.
BOOST_AUTO_TEST_CASE(rc_dto_more_segments_than_the_ep_has) {
  const Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.max_request_iov = 0;
  attr.max_rdma_write_iov = attr.max_rdma_read_iov = 0;
  attr.max_recv_iov = 1;
  Pair pair(&attr);
  Buffer from(pair.ia, pair.pz, 64);
  Buffer to(pair.ia, pair.pz, 64);
  from.fill(5);
  pair.connect();
  const DAT_EP_HANDLE ep = pair.active.ep;
  const auto list = [](const Buffer& buffer, DAT_COUNT count) {
    std::vector<DAT_LMR_TRIPLET> segments;
    for (DAT_COUNT i = 0; i < count; ++i)
      segments.push_back(buffer.local(8, static_cast<std::size_t>(i) * 8));
    return segments;
  };
  const DAT_IA_ATTR& ia = pair.ia.attr;
  const DAT_COUNT count = std::min(4, ia.max_iov_segments_per_dto);
  auto sent = list(from, count);
  auto received = list(to, count);
  REQUIRE_OK(dat_ep_post_recv(pair.passive.ep, count, received.data(), cookie(1),
                              DAT_COMPLETION_DEFAULT_FLAG));
  REQUIRE_OK(dat_ep_post_send(ep, count, sent.data(), cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK(to.holds(5, static_cast<std::size_t>(count) * 8));
  const DAT_RMR_TRIPLET remote = to.remote(64);
  sent = list(from, std::min(4, ia.max_iov_segments_per_rdma_write));
  REQUIRE_OK(dat_ep_post_rdma_write(ep, static_cast<DAT_COUNT>(sent.size()), sent.data(), cookie(3),
                                    &remote, DAT_COMPLETION_DEFAULT_FLAG));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3);
  sent = list(from, std::min(4, ia.max_iov_segments_per_rdma_read));
  REQUIRE_OK(dat_ep_post_rdma_read(ep, static_cast<DAT_COUNT>(sent.size()), sent.data(), cookie(4),
                                   &remote, DAT_COMPLETION_DEFAULT_FLAG));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 4);

  std::vector<DAT_LMR_TRIPLET> many(
      static_cast<std::size_t>(std::max(ia.max_iov_segments_per_dto, 4)) + 1, from.local(1));
  const auto more = static_cast<DAT_COUNT>(many.size());
  CHECK_TYPE(dat_ep_post_send(ep, more, many.data(), cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_post_recv(ep, more, many.data(), cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_post_send_with_invalidate(ep, more, many.data(), cookie(1),
                                              DAT_COMPLETION_DEFAULT_FLAG, DAT_FALSE, 0),
             DAT_INVALID_PARAMETER);
  // A count that exceeds the maximum of every IA.
  CHECK_TYPE(
      dat_ep_post_rdma_write(ep, -1, many.data(), cookie(1), &remote, DAT_COMPLETION_DEFAULT_FLAG),
      DAT_INVALID_PARAMETER);
  CHECK_TYPE(
      dat_ep_post_rdma_read(ep, -1, many.data(), cookie(1), &remote, DAT_COMPLETION_DEFAULT_FLAG),
      DAT_INVALID_PARAMETER);
  pair.disconnect();
}

// SOLICITED_WAIT is for messages. With RDMA it notifies nothing at the peer, but it is no error.
BOOST_AUTO_TEST_CASE(rc_dto_solicited_rdma) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(
      pair.active.post_write(buffer, buffer.remote(64), 1, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
  REQUIRE_OK(
      pair.active.post_read(buffer, buffer.remote(64), 2, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  pair.disconnect();
}

// Completions may be lost, but not the slots of their requests: docs/semantics.md#disconnecting.
BOOST_AUTO_TEST_CASE(rc_dto_reset_empties_the_queue) {
  Pair pair;
  Evd evd;
  const DAT_RETURN rc = dat_evd_create(
      pair.ia, 4, nullptr, static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG),
      evd.out());
  if (skip_unless(rc == DAT_SUCCESS, "the IA does not merge software events and completions"))
    return;
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  attr.max_request_dtos = 4;
  Ep ep;
  REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, evd, evd, pair.active.connect_evd, &attr, ep.out()));
  std::swap(pair.active.ep, ep);
  Buffer buffer(pair.ia, pair.pz, 64);
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_query(pair.active.ep, DAT_EP_FIELD_ALL, &param));
  const DAT_COUNT most = param.ep_attr.max_request_dtos;  // possibly more than requested
  pair.connect();
  pair.disconnect();
  drain(evd);

  while (post_software(evd) == DAT_SUCCESS) {
  }
  for (DAT_COUNT i = 0; i < most; ++i) REQUIRE_OK(pair.active.post_send(buffer, 64, 1));
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  drain(evd);
  while (next_event(pair.ia.async_evd, 0)) {  // an overflow of the EVD may be reported
  }

  pair.connect();
  for (DAT_COUNT i = 0; i < most; ++i) REQUIRE_OK(pair.passive.post_recv(buffer, 64, 1));
  for (DAT_COUNT i = 0; i < most; ++i) {
    REQUIRE_OK(pair.active.post_send(buffer, 64, 2));
  }
  pair.disconnect();
  REQUIRE_OK(dat_ep_free(pair.active.ep.release()));
  pair.active.ep = std::move(ep);
}

// The calls that are new in 2.0, and binds. Posts in DISCONNECTED are flushed, and occupy slots
// until their completions are dequeued.
BOOST_AUTO_TEST_CASE(rc_dto_calls_of_2_0) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  pair.disconnect();
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_query(pair.active.ep, DAT_EP_FIELD_ALL, &param));
  const DAT_COUNT most =
      4 * param.ep_attr.max_request_dtos + 1000;  // it may have more slots than it reports
  const auto fill = [&](const auto& post) {
    DAT_COUNT posted = 0;
    DAT_RETURN rc = DAT_SUCCESS;
    while (posted < most && (rc = post()) == DAT_SUCCESS) ++posted;
    CHECK_TYPE(rc, DAT_INSUFFICIENT_RESOURCES);
    for (; posted > 0; --posted) expect_event(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT);
  };
  DAT_LMR_TRIPLET local = buffer.local();
  const auto send = [&] {
    return dat_ep_post_send_with_invalidate(pair.active.ep, 1, &local, cookie(1),
                                            DAT_COMPLETION_DEFAULT_FLAG, DAT_FALSE, 0);
  };
  fill(send);
  DAT_RMR_TRIPLET sink = buffer.remote(64);
  DAT_RMR_TRIPLET source = buffer.remote(64);
  const auto read = [&](const DAT_RMR_TRIPLET* from) {
    return dat_ep_post_rdma_read_to_rmr(pair.active.ep, &sink, cookie(1), from,
                                        DAT_COMPLETION_DEFAULT_FLAG);
  };
  const DAT_RETURN first = read(&source);
  if (skip_unless(DAT_GET_TYPE(first) != DAT_MODEL_NOT_SUPPORTED,
                  "the device cannot read into an RMR"))
    return;
  REQUIRE_OK(first);
  expect_event(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT);
  CHECK_TYPE(read(nullptr), DAT_INVALID_PARAMETER);
  sink.segment_length = 63;
  CHECK_TYPE(read(&source), DAT_LENGTH_ERROR);
  sink.segment_length = 64;
  fill([&] { return read(&source); });
}

namespace {

// Memory may be checked immediately or when the operation is executed, but a silent success is
// never allowed: docs/semantics.md#local-memory.
template <class Post>
void check_memory(Pair& pair, DAT_EVD_HANDLE evd, const char* what, DAT_RETURN at_once, Post post) {
  BOOST_TEST_CONTEXT(what) {
    const DAT_RETURN rc = post();
    if (rc != DAT_SUCCESS) {
      BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == at_once || DAT_GET_TYPE(rc) == DAT_INVALID_PARAMETER,
                          describe(rc));
      pair.disconnect();
      return;
    }
    const auto event = next_event(evd);
    BOOST_REQUIRE(event);
    BOOST_CHECK_EQUAL(event->event_data.dto_completion_event_data.status,
                      DAT_DTO_ERR_LOCAL_PROTECTION);
    expect_connection_end(pair.active.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
  }
}

}  // namespace

// A PZ other than that of the EP: PROTECTION_VIOLATION.
BOOST_AUTO_TEST_CASE(rc_dto_protection_violation) {
  for (const char* const what : {"send", "write", "read", "receive"}) {
    Pair pair;
    const Pz other = make_pz(pair.ia);
    Buffer buffer(pair.ia, pair.pz, 64);
    Buffer foreign(pair.ia, other, 64);
    pair.connect();
    const std::string_view kind(what);
    if (kind == "receive") {
      check_memory(pair, pair.passive.recv_evd, what, DAT_PROTECTION_VIOLATION, [&] {
        const DAT_RETURN rc = pair.passive.post_recv(foreign, 64, 1);
        if (rc == DAT_SUCCESS) REQUIRE_OK(pair.active.post_send(buffer, 64, 1));
        return rc;
      });
      continue;
    }
    check_memory(pair, pair.active.request_evd, what, DAT_PROTECTION_VIOLATION, [&] {
      return kind == "send"    ? pair.active.post_send(foreign, 64, 1)
             : kind == "write" ? pair.active.post_write(foreign, buffer.remote(64), 1)
                               : pair.active.post_read(foreign, buffer.remote(64), 1);
    });
  }
}

// An LMR without the necessary local right, or no LMR at all: PRIVILEGES_VIOLATION.
BOOST_AUTO_TEST_CASE(rc_dto_privileges_violation) {
  for (const char* const what : {"send", "write", "read", "read into nothing", "receive"}) {
    Pair pair;
    Buffer buffer(pair.ia, pair.pz, 64);
    Buffer readable(pair.ia, pair.pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    Buffer nothing(pair.ia, pair.pz, 64);
    nothing.lmr_context ^= 0x00500000;
    pair.connect();
    const std::string_view kind(what);
    if (kind == "receive") {
      check_memory(pair, pair.passive.recv_evd, what, DAT_PRIVILEGES_VIOLATION, [&] {
        const DAT_RETURN rc = pair.passive.post_recv(readable, 64, 1);
        if (rc == DAT_SUCCESS) REQUIRE_OK(pair.active.post_send(buffer, 64, 1));
        return rc;
      });
      continue;
    }
    check_memory(pair, pair.active.request_evd, what, DAT_PRIVILEGES_VIOLATION, [&] {
      return kind == "send"    ? pair.active.post_send(nothing, 64, 1)
             : kind == "write" ? pair.active.post_write(nothing, buffer.remote(64), 1)
             : kind == "read"  ? pair.active.post_read(readable, buffer.remote(64), 1)
                               : pair.active.post_read(nothing, buffer.remote(64), 1);
    });
  }
}

// ---- memory: 2.9, 2.10 ----

BOOST_AUTO_TEST_CASE(rc_lmr_zero_based) {
  const Ia ia;
  if (skip_unless(ia.attr.zb_supported == DAT_FALSE, "the IA has zero-based addresses")) return;
  const Pz pz = make_pz(ia);
  char bytes[64];
  DAT_REGION_DESCRIPTION region{};
  region.for_va = bytes;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  DAT_RMR_CONTEXT remote = 0;
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
  CHECK_TYPE(
      dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof bytes, pz, DAT_MEM_PRIV_ALL_FLAG,
                     DAT_VA_TYPE_ZB, &lmr, &context, &remote, &length, &address),
      DAT_MODEL_NOT_SUPPORTED);
}

BOOST_AUTO_TEST_CASE(rc_rmr) {
  const Ia ia;
  if (skip_unless(ia.attr.max_rmrs > 0, "the IA has no RMRs")) return;
  const Pz pz = make_pz(ia);
  CHECK_TYPE(dat_rmr_create(pz, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE_OR(dat_rmr_create_for_ep(pz, nullptr), DAT_INVALID_PARAMETER, DAT_MODEL_NOT_SUPPORTED);
  Rmr rmr;
  REQUIRE_OK(dat_rmr_create(pz, rmr.out()));
  DAT_RMR_PARAM param{};
  CHECK_TYPE(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_rmr_query(rmr, not_an_enumerator<DAT_RMR_PARAM_MASK>(0x100), &param));
}

// ---- SRQ: 2.12 ----

BOOST_AUTO_TEST_CASE(rc_srq) {
  const Ia ia;
  if (skip_unless(ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  const Pz pz = make_pz(ia);
  const Pz other = make_pz(ia);
  Buffer foreign(ia, other, 64);
  Buffer readable(ia, pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  DAT_SRQ_ATTR attr{4, 1, DAT_SRQ_LW_DEFAULT};
  Srq srq;
  REQUIRE_OK(dat_srq_create(ia, pz, &attr, srq.out()));
  DAT_SRQ_PARAM param{};
  CHECK_TYPE(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
  std::vector<DAT_LMR_TRIPLET> segments(static_cast<std::size_t>(param.max_recv_iov) + 1,
                                        readable.local());
  CHECK_TYPE(dat_srq_post_recv(srq, param.max_recv_iov + 1, segments.data(), cookie(1)),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_srq_post_recv(srq, -1, segments.data(), cookie(1)), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_srq_post_recv(srq, 1, nullptr, cookie(1)), DAT_INVALID_PARAMETER);
  // Checked immediately or when a message arrives (docs/semantics.md#local-memory); none does.
  DAT_LMR_TRIPLET segment = foreign.local();
  DAT_RETURN rc = dat_srq_post_recv(srq, 1, &segment, cookie(1));
  BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_PROTECTION_VIOLATION,
                      describe(rc));
  segment = readable.local();
  rc = dat_srq_post_recv(srq, 1, &segment, cookie(1));
  BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_PRIVILEGES_VIOLATION,
                      describe(rc));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
